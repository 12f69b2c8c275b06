"""The health check of a compute node: checks, severities, and the drain in Slurm."""
