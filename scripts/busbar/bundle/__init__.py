"""Creates and verifies site bundles: the files that the hosts of an inventory download, for any web server."""
