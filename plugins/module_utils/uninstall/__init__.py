"""Restore a host to its state before busbar configured it."""
