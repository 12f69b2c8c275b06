"""Plan and check NFS exports and mounts."""
