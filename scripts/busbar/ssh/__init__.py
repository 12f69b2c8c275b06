"""First contact with hosts: their host keys, the first login, and the timer that renews certificates."""
