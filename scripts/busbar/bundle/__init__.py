"""Bundles for sites without internet access: what the hosts of an inventory download, as files for any web server."""
