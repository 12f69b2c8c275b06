"""Action behind the module `busbar.cluster.replay`: hands a host the record of its last full run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ..plugin_utils.last_run import handed_over

RESULT = "busbar_drift"


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Runs the module; what it finds is a result, never a failure, and goes into the statistics of the run."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result."""
        super().run(tmp, task_vars)
        host = str(self._task.args.get("of") or (task_vars or {})["inventory_hostname"])
        try:
            given = handed_over(Path(str(self._task.args["record"])), host)
        except FileNotFoundError:
            drift = "the last full run executed nothing here"
        else:
            found = self._execute_module(module_args=given, task_vars=task_vars)
            drift = str(found.get("drift", found.get("msg") or "no answer"))
        return {
            "changed": False,
            "drift": drift,
            "ansible_stats": {"data": {RESULT: {host: drift}}, "aggregate": True, "per_host": False},
        }
