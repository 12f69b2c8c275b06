"""Remedies for GPU faults, and NVLink domains."""
