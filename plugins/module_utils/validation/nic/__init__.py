"""The stage nic."""
