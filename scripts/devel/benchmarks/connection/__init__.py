"""Ansible connection plugins for benchmarks."""
