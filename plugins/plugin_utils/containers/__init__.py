"""Enroot, registries, user namespaces, and environment modules."""
