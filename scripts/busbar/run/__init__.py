"""Runs playbooks in the foreground or detached, and displays their progress."""
