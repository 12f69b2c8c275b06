"""Mounts, NFS, /etc/hosts, and local scratch disks."""
