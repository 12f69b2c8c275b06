"""One run of a playbook shared out over several processes, on this host or on others."""
