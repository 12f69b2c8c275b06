"""Action behind the modules that install packages: says who holds the package manager's lock, and tries again.

Packages that this run has found on the host already are not asked for once more.
"""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.common.package_lock import LIMIT_S, Holder, holder_text, over_limit_text
from ..module_utils.common.printable import printable
from ..plugin_utils.packages_seen import FACT, all_seen, seen_now

# How often the screen hears of a wait that goes on.
AGAIN_S = 60
# The module itself waits; this is for a host whose clock or answers are not sound.
PAUSE_S = 1


def as_holder(found: dict[str, Any]) -> Holder:
    """Return what a host said of a holder, with nothing missing."""
    pid = found.get("pid")
    texts = {name: str(found.get(name) or "") for name in ("lock", "process", "command")}
    return {"pid": pid if isinstance(pid, int) else 0, **texts}  # type: ignore[typeddict-item]


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Runs the module; while somebody else has the lock, again, until the limit."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result, or a failure that names the holder."""
        super().run(tmp, task_vars)
        facts = (task_vars or {}).get("ansible_facts") or {}
        # Facts are of the host of the play, and another one is asked where a task is delegated.
        own = not self._task.delegate_to
        # Executing a module adds Ansible's own to them.
        asked = dict(self._task.args)
        if own and str(self._task.action).endswith(".packages") and all_seen(asked, facts):
            return {"changed": False, "installed": [], "removed": [], "held": [], "diff": []}
        result = self._ask(task_vars or {})
        seen = seen_now(str(self._task.action), asked, {**result, "dry": self._task.check_mode}, facts)
        return {**result, "ansible_facts": {FACT: seen}} if own and seen is not None else result

    def _ask(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the module's result, or a failure that names the holder of the lock."""
        host = str(task_vars.get("inventory_hostname", ""))
        started, told_at, told = time.monotonic(), 0.0, ""
        while True:
            result: dict[str, Any] = self._execute_module(task_vars=task_vars)
            found = result.get("waits_for")
            if not isinstance(found, dict):
                return result
            holder = as_holder(found)
            waited = time.monotonic() - started
            if waited >= LIMIT_S:
                return {**result, "msg": printable(over_limit_text(holder, waited))}
            text = printable(holder_text(holder))
            if text != told or time.monotonic() - told_at >= AGAIN_S:
                # One line that begins so is shown at once by `busbar provision`, too.
                Display().display(f"WAITING {host}: {text}; {round(waited)} of {LIMIT_S} s")
                told, told_at = text, time.monotonic()
            time.sleep(PAUSE_S)
