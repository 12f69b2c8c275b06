"""The stage cluster, and the rails."""
