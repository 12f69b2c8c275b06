"""Plans of the cluster: slurm.conf, partitions, topology, upgrades, and checks of the options."""
