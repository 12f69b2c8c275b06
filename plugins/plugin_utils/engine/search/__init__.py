"""The search for slow nodes and links, and a simulated fabric to try it on."""
