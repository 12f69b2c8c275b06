"""The stage pair."""
