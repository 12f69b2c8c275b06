"""User permissions, networks, password hashes, SSH and TLS certificates, and rotation of secrets."""
