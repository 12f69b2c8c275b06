"""The portal: notebooks started from a browser that run as Slurm jobs."""
