"""Validation of nodes of any Slurm cluster as an unprivileged user."""
