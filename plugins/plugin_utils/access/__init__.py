"""Accounts, logins, SSH and TLS certificates."""
