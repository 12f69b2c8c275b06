"""Packages, files, units, processes and problems: parts that all modules use."""
