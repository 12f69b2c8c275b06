"""The way to new hosts: their host keys, the first login, and the timer that renews what they trust."""
