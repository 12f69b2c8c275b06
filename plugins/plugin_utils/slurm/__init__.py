"""Plan slurm.conf, partitions, topology and upgrades of a cluster, and check the options."""
