"""The search for slow nodes and links."""
