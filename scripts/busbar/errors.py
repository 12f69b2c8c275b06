"""Errors that the command line prints as one line with an exit code."""

from __future__ import annotations

from importlib.util import find_spec


class UsageError(Exception):
    """Invalid input or a missing prerequisite; the command prints this message and exits with 2."""


class AnsibleMissingError(UsageError):
    """The command needs Ansible, which is not installed."""

    def __init__(self) -> None:
        """Use the remedy as the message; the command line prepends the name of the command."""
        super().__init__("needs Ansible: pip install 'busbar[ansible]' (Python 3.11 or later)")


def require_ansible() -> None:
    """Check that Ansible is installed, before the command does anything.

    Raises:
        AnsibleMissingError: Ansible or ansible-runner is not installed.
    """
    if find_spec("ansible") is None or find_spec("ansible_runner") is None:
        raise AnsibleMissingError
