"""Builds images of compute nodes, and the signed bundles that booted nodes use to configure themselves."""
