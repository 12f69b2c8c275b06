"""The portal: notebooks that run as jobs of Slurm, asked for in a browser."""
