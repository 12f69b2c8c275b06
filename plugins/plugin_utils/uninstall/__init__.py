"""Checks of the choice of hosts to uninstall."""
