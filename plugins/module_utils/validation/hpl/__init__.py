"""The stage hpl."""
