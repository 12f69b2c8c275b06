"""Images of compute nodes, and the signed bundles with which booted nodes configure themselves."""
