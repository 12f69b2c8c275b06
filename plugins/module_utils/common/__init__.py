"""Packages, files, units, processes and problems: code shared by all modules."""
