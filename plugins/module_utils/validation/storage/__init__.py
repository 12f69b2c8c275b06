"""The storage stage."""
