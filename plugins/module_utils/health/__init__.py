"""The health check of a compute node: what is looked at, how severe it is, and what follows from it in Slurm."""
