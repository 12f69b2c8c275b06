"""What every subject uses: problems, packages, units of systemd, keys, processes."""
