"""Checks of the options of the backup."""
