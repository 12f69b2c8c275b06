"""Validation of nodes in any Slurm cluster as an unprivileged user."""
