"""Checks of exports and mounts."""
