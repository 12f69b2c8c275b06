"""Lmod module files."""
