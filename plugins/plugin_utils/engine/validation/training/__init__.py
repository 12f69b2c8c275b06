"""The training stage."""
