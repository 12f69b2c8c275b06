"""Checks of accounts, the firewall and PXE; SSH and TLS certificates; rotation of secrets."""
