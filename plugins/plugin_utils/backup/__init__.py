"""Backup of what a cluster knows and cannot be made again, and its way back."""
