"""Connections from within one action to other hosts than its own, as their variables in the inventory say."""

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
    """A connection to a host, as root where its variables or the task say so."""

    def __init__(self, connection: Any, context: Any) -> None:  # noqa: ANN401 - Ansible has no types
        """Take Ansible's connection, and the play context of its host."""
        self._connection = connection
        self._context = context

    # Worked out once: a local connection knows the login user only after its first command. A later command without
    # become would wait for the mark of the first one.
    @functools.cached_property
    def _becomes(self) -> bool:
        """Whether somebody else than the one who logs in runs commands; as for any task, root need not become root."""
        if not self._connection.become:
            return False
        user = self._context.remote_user
        with contextlib.suppress(KeyError):
            user = self._connection.get_option("remote_user") or user
        other = self._connection.become.get_option("become_user")
        return constants.BECOME_ALLOW_SAME_USER or user != other or not (user or other)

    def run(self, script: str) -> tuple[int, bytes, bytes]:
        """Run a script of sh; returns exit code, output and errors as they came.

        Raises:
            AnsibleError: the host cannot be reached.
        """
        connection, command, executable = self._connection, "/bin/sh", self._context.executable or "/bin/sh"
        if self._becomes:
            command = connection.become.build_become_command(command, get_shell_plugin(executable=executable))
        if connection.allow_executable:
            command = f"{executable} -c {shlex.quote(command)}"
        # With something to read there is no terminal, which would change bytes and mix errors into the output.
        code, out, err = connection.exec_command(command, in_data=script.encode(), sudoable=True)
        return int(code or 0), bytes(out), bytes(err)


class NodeConnections:
    """Makes connections to hosts of the inventory from what an action knows."""

    def __init__(self, task: Any, play_context: Any, hostvars: Mapping[str, Any]) -> None:  # noqa: ANN401 - see above
        """Take the action's task and play context, and the variables of all hosts."""
        self._task = task
        self._play_context = play_context
        self._hostvars = hostvars

    def to(self, host: str) -> NodeConnection:
        """Return a connection to a host, which is not opened yet.

        Raises:
            AnsibleError: its variables name no connection, or cannot be worked out.
        """
        variables = self._hostvars[host]
        context = self._play_context.copy()
        context.remote_addr = variables.get("ansible_host") or host
        name = variables.get("ansible_connection") or self._task.connection or constants.DEFAULT_TRANSPORT
        connection = connection_loader.get(name, context, ansible_playbook_pid=str(os.getppid()))
        keys = {**self._task.dump_attrs(), "timeout": context.timeout}
        keys.pop("retries", None)
        # What was typed on the command line is for all hosts; what the action's own host has in its variables is not.
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
