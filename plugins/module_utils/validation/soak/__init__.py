"""The stage soak."""
