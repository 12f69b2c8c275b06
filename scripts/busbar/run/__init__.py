"""Runs playbooks: in the foreground or detached, with what the terminal shows of them."""
