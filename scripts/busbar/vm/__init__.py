"""Virtual machines with kernels of their own, for what a container cannot show: NFS, software RAID, a reboot."""
