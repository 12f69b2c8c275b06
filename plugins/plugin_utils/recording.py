"""Notes what a run executes on the hosts: each module as Ansible sends it, and the digest of its answer.

Ansible has no interface for that. What callbacks get is what a task made of it, and without its secrets.
"""

# Private names of Ansible's action plugins; no types.
# ruff: noqa: SLF001, ANN401
from __future__ import annotations

import json
import os
import re
import shlex
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.executor.task_executor import TaskExecutor
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.module_utils.json_utils import _filter_non_json_lines
from ansible.plugins.action import ActionBase

from ..module_utils.common.replay import digest
from .last_run import EXECUTIONS, FOLDER, append

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Recorder", "recorder"]

# They come after each run that has nothing to do, too.
_AFTERWARDS = frozenset({"admit.yml", "validate.yml"})
# What the look at the hosts begins with asks each time: clocks and GPUs never answer the same twice.
_ASKED_ANYWAY = "busbar.cluster.preflight : look | "
_ZIP = re.compile(r"zip_data='([A-Za-z0-9+/=]+)'")
_NAME = re.compile(r"module_fqn='([A-Za-z0-9_.]+)'")


def recorder() -> Recorder | None:
    """Return what notes the run of this process and all forked from it, None when nobody asked for it."""
    folder = os.environ.get(FOLDER)
    return Recorder(Path(folder)) if folder else None


class Recorder:
    """Stands between Ansible's action plugins and the hosts. A process of Ansible does one task on one host."""

    def __init__(self, folder: Path) -> None:
        """Take the folder to note in."""
        self._folder = folder
        self._on = True
        self._host, self._dry = "", True
        # What the execution that goes on is about to send, and what came back.
        self._sent: list[tuple[dict[str, Any], Any]] | None = None
        self._said = ""
        for owner, name, around in (
            (TaskExecutor, "__init__", self._begins),
            (ActionBase, "_execute_module", self._executes),
            (ActionBase, "_configure_module", self._configures),
            (ActionBase, "_low_level_execute_command", self._commands),
            (ActionBase, "_remove_tmp_path", self._cleans),
        ):
            setattr(owner, name, _wrapped(getattr(owner, name), around))

    def play(self, playbook: str) -> None:
        """Take in that a play of that file begins."""
        self._on = Path(playbook).name not in _AFTERWARDS

    def _begins(self, call: Callable[..., Any], executor: Any, host: Any, task: Any, *args: Any, **named: Any) -> None:
        said = (task.get_ds() or {}).get("check_mode")
        self._host, self._dry = str(host), said is not False
        call(executor, host, task, *args, **named)

    def _executes(self, call: Callable[..., Any], action: Any, *args: Any, **named: Any) -> Any:
        self._sent, self._said = [], ""
        try:
            found = call(action, *args, **named)
        finally:
            sent, self._sent = self._sent, None
        background = bool(named.get("wrap_async") or action._task.async_val)
        for arguments, module in sent:
            self._note(
                action, {"problem": "it runs in the background"} if background else self._module(arguments, module)
            )
        return found

    def _configures(
        self, call: Callable[..., Any], action: Any, module_name: str, module_args: dict[str, Any], task_vars: Any
    ) -> Any:
        found = call(action, module_name=module_name, module_args=module_args, task_vars=task_vars)
        if self._sent is not None:
            self._sent.append((module_args, found[0]))
        return found

    def _commands(self, call: Callable[..., Any], action: Any, *args: Any, **named: Any) -> Any:
        found = call(action, *args, **named)
        if self._sent is None:
            self._note(action, {"problem": "it executes no module"})
        self._said = str(found.get("stdout", ""))
        return found

    def _cleans(self, call: Callable[..., Any], action: Any, *args: Any, **named: Any) -> Any:
        self._sent = []
        try:
            return call(action, *args, **named)
        finally:
            self._sent = None

    def _module(self, arguments: dict[str, Any], module: Any) -> dict[str, Any]:
        """Return what is needed to execute a module once more; its code is kept once."""
        wrapper = module.b_module_data.decode("utf-8", "replace")
        name, code = _NAME.search(wrapper), _ZIP.search(wrapper)
        if module.module_style != "new" or name is None or code is None:
            return {"problem": "its module is not in Python"}
        kept = self._folder / f"{name[1]}.zip64"
        if not kept.exists():
            kept.write_text(code[1], encoding="ascii")
        encoder = get_module_encoder(module.serialization_profile, Direction.CONTROLLER_TO_MODULE)
        # A directory of that one execution.
        plain = json.loads(json.dumps(arguments, cls=encoder)) | {"_ansible_tmpdir": None}
        try:
            answer = digest(_filter_non_json_lines(self._said, objects_only=True)[0])
        except ValueError:
            answer = ""
        return {"module": name[1], "profile": module.serialization_profile, "arguments": plain, "digest": answer}

    def _note(self, action: Any, entry: dict[str, Any]) -> None:
        task, connection = action._task, action._connection
        if not self._on or str(task.get_name()).startswith(_ASKED_ANYWAY):
            return
        noted = {
            "host": self._host,
            "on": str(task.delegate_to or ""),
            "task": str(task.get_name()).removeprefix("busbar.cluster."),
            "connection": connection.transport,
            "become": str(connection.become.get_option("become_user") or "root") if connection.become else "",
            "environment": shlex.split(action._compute_environment_string()),
            "dry": self._dry,
        }
        append(self._folder / EXECUTIONS, noted | entry)


def _wrapped(call: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def wrapper(*args: Any, **named: Any) -> Any:
        return around(call, *args, **named)

    return wrapper
