"""A validation of nodes of any Slurm cluster, as an ordinary user."""
