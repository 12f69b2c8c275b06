"""The commands of `busbar`, one module each, and their helpers."""
