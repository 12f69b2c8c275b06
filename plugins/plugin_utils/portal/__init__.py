"""Checks of the options of the portal."""
