"""Connection plugins of Ansible for benchmarks."""
