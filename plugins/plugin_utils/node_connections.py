"""Open connections from an action to other hosts, according to their inventory variables."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from typing import TYPE_CHECKING, Any

from ansible import constants
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.loader import become_loader, connection_loader, get_shell_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NodeConnection", "NodeConnections"]


class NodeConnection:
    """A connection to a host, with privilege escalation if its variables or the task require it."""

    def __init__(self, connection: Any, context: Any) -> None:  # noqa: ANN401 - Ansible is untyped
        """Store the connection plugin and the play context of the host."""
        self._connection = connection
        self._context = context

    # Cached, because a local connection reports its user only after the first command, which would change the result.
    @functools.cached_property
    def _becomes(self) -> bool:
        """Return whether commands run as a different user than the login user; root does not become root."""
        if not self._connection.become:
            return False
        user = self._context.remote_user
        with contextlib.suppress(KeyError):
            user = self._connection.get_option("remote_user") or user
        other = self._connection.become.get_option("become_user")
        return constants.BECOME_ALLOW_SAME_USER or user != other or not (user or other)

    def run(self, script: str) -> tuple[int, bytes, bytes]:
        """Run a shell script; return its exit code, stdout and stderr.

        Raises:
            AnsibleError: if the host is unreachable.
        """
        connection, command, executable = self._connection, "/bin/sh", self._context.executable or "/bin/sh"
        if self._becomes:
            command = connection.become.build_become_command(command, get_shell_plugin(executable=executable))
        if connection.allow_executable:
            command = f"{executable} -c {shlex.quote(command)}"
        # With input, Ansible requests no terminal, which would change bytes and merge stderr into stdout.
        code, out, err = connection.exec_command(command, in_data=script.encode(), sudoable=True)
        return int(code or 0), bytes(out), bytes(err)


class NodeConnections:
    """Creates connections to inventory hosts from the context of an action."""

    def __init__(self, task: Any, play_context: Any, hostvars: Mapping[str, Any]) -> None:  # noqa: ANN401 - see above
        """Store the action's task and play context, and the variables of all hosts."""
        self._task = task
        self._play_context = play_context
        self._hostvars = hostvars

    def to(self, host: str) -> NodeConnection:
        """Return an unopened connection to a host.

        Raises:
            AnsibleError: if its variables name no valid connection or cannot be templated.
        """
        variables = self._hostvars[host]
        context = self._play_context.copy()
        context.remote_addr = variables.get("ansible_host") or host
        name = variables.get("ansible_connection") or self._task.connection or constants.DEFAULT_TRANSPORT
        connection = connection_loader.get(name, context, ansible_playbook_pid=str(os.getppid()))
        keys = {**self._task.dump_attrs(), "timeout": context.timeout}
        keys.pop("retries", None)
        # Passwords from the command line apply to all hosts, but those from variables of the action's host do not.
        mine = self._hostvars.get(self._task.delegate_to or "", {})
        for key in ("password", "become_pass"):
            typed = getattr(context, key, None)
            if typed and not any(variable in mine for variable in constants.MAGIC_VARIABLE_MAPPING[key]):
                keys[key] = typed
        wanted = variables.get("ansible_become")
        if boolean(self._task.become if wanted is None else wanted, strict=False):
            method = variables.get("ansible_become_method") or self._task.become_method or "sudo"
            connection.set_become_plugin(become_loader.get(method))
        for plugin in filter(None, (connection, connection.become)):
            plugin.set_options(task_keys=keys, var_options=variables)
        return NodeConnection(connection, context)
