"""Slurm's configuration, its nodes and jobs, health checks, accounting, and SPANK plugins."""
