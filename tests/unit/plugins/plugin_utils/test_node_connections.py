"""Commands over Ansible's connections, with privilege escalation if required."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ansible_collections.busbar.cluster.plugins.action.validation import NodeConnection


class _Become:
    """Becomes root, and marks each command."""

    def get_option(self, name: str) -> str:
        """The option."""
        return {"become_user": "root"}[name]

    def build_become_command(self, command: str, _shell: object) -> str:
        """The command of the other user."""
        return f"sudo {command}"


class _Local:
    """A connection that learns from its first command who logs in, as Ansible's `local` does when it connects."""

    allow_executable = False

    def __init__(self, context: Any) -> None:  # noqa: ANN401 - as Ansible's
        """Take the play context."""
        self.become, self.context = _Become(), context
        self.commands: list[str] = []

    def get_option(self, name: str) -> str:
        """It has none of the options of SSH."""
        raise KeyError(name)

    def exec_command(self, command: str, in_data: bytes, *, sudoable: bool) -> tuple[int, bytes, bytes]:
        """Note the command."""
        assert (in_data, sudoable) == (b"true\n", True)
        self.context.remote_user = "root"
        self.commands.append(command)
        return 0, b"", b""


def test_all_commands_of_a_connection_become_root_alike() -> None:
    # A local connection waits for the mark of the first command's user in the output of each that follows.
    context = SimpleNamespace(remote_user=None, executable="/bin/sh")
    connection = _Local(context)
    node = NodeConnection(connection, context)
    node.run("true\n")
    node.run("true\n")
    assert connection.commands == ["sudo /bin/sh", "sudo /bin/sh"]
