"""Brings a host back to its state before busbar."""
