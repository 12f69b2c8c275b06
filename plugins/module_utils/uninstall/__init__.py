"""Restore the state of a host before busbar."""
