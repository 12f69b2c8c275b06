"""Accounts, logins, public keys and the directory on a host."""
