"""Virtual machines for tests that need a separate kernel: NFS, software RAID, reboots."""
