"""Slurm's nodes, jobs and accounting on a host, and the metrics collector."""
