"""Checks on the inventory and the hosts before anything changes."""
