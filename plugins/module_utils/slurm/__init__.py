"""Nodes, jobs and accounting of Slurm on a host, and its metrics collector."""
