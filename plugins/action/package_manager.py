"""Action plugin of the modules that install packages: reports the process that holds the lock, and retries."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.common.package_lock import LIMIT_S, Holder, holder_text, over_limit_text
from ..plugin_utils.engine.common.printable import printable

# Seconds between progress messages while waiting.
AGAIN_S = 60
# The module waits for the lock; this pause limits the retries if the clock or the answer of a host is wrong.
PAUSE_S = 1


def as_holder(found: dict[str, Any]) -> Holder:
    """Return a host's answer as a Holder, with defaults for missing fields."""
    pid = found.get("pid")
    texts = {name: str(found.get(name) or "") for name in ("lock", "process", "command")}
    return {"pid": pid if isinstance(pid, int) else 0, **texts}  # type: ignore[typeddict-item]


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Runs the module, and retries until the limit while another process holds the lock."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result, or a failure that names the lock holder."""
        super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname", ""))
        started, shown_at, shown = time.monotonic(), 0.0, ""
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
            if text != shown or time.monotonic() - shown_at >= AGAIN_S:
                # `busbar provision` shows lines with this prefix immediately.
                Display().display(f"WAITING {host}: {text}; {round(waited)} of {LIMIT_S} s")
                shown, shown_at = text, time.monotonic()
            time.sleep(PAUSE_S)
