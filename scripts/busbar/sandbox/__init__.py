"""The sandbox: a small real cluster of system containers on one machine."""
