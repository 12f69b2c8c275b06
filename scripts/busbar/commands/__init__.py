"""The commands of `busbar`, one module each, and what only they use."""
