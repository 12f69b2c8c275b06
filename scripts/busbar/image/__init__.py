"""Builds images of compute nodes, and the signed bundles from which booted nodes configure themselves."""
