"""Errors that the command line turns into one line and an exit code."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["AnsibleMissingError", "UsageError", "require_ansible"]


class UsageError(Exception):
    """Bad input, or something that the host lacks; the command ends with exit code 2 and this message."""


class AnsibleMissingError(UsageError):
    """The command needs Ansible, which is not installed."""

    def __init__(self) -> None:
        """Name the remedy; the command line puts the command before it."""
        super().__init__("needs Ansible: pip install 'busbar[ansible]' (Python 3.11 or later)")


def require_ansible() -> None:
    """Stop a command that needs Ansible before it does anything.

    Raises:
        AnsibleMissingError: Ansible or ansible-runner is not installed.
    """
    if find_spec("ansible") is None or find_spec("ansible_runner") is None:
        raise AnsibleMissingError
