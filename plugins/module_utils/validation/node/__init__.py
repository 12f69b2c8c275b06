"""The stage node."""
