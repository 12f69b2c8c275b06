"""Tests of commands over Ansible's connections, with privilege escalation if required."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.busbar.cluster.plugins.action.validation import NodeConnection


class _Become:
    """A become plugin for root that marks each command."""

    def get_option(self, name: str) -> str:
        """Return the option."""
        return {"become_user": "root"}[name]

    def build_become_command(self, command: str, _shell: object) -> str:
        """Return the command as the other user."""
        return f"sudo {command}"


class _Local:
    """A connection that sets the remote user with its first command, like Ansible's `local` when it connects."""

    allow_executable = False

    def __init__(self, context: Any) -> None:  # noqa: ANN401 - as Ansible's
        """Take the play context."""
        self.become, self.context = _Become(), context
        self.commands: list[str] = []

    def get_option(self, name: str) -> str:
        """Raise KeyError: the connection has no SSH options."""
        raise KeyError(name)

    def exec_command(self, command: str, in_data: bytes, *, sudoable: bool) -> tuple[int, bytes, bytes]:
        """Record the command."""
        assert (in_data, sudoable) == (b"true\n", True)
        self.context.remote_user = "root"
        self.commands.append(command)
        return 0, b"", b""


def test_all_commands_of_a_connection_become_root() -> None:
    # A local connection expects the mark of the first command's user in the output of all later commands.
    context = SimpleNamespace(remote_user=None, executable="/bin/sh")
    connection = _Local(context)
    node = NodeConnection(connection, context)
    node.run("true\n")
    node.run("true\n")
    assert connection.commands == ["sudo /bin/sh", "sudo /bin/sh"]
