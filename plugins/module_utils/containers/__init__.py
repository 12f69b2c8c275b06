"""Enroot, registries and user namespaces on a host."""
