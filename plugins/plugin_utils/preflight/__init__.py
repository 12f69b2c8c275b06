"""Checks of the inventory and the hosts before anything changes."""
