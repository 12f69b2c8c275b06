"""Action plugin of `busbar.cluster.node_info`: returns connection failures as data instead of failing the task."""

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils.common.node_answer import clock_offset, failure_kind, short_message


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Runs the module, measures the clock offset of the host, and returns failures as data."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result, or the kind and message of the failure."""
        super().run(tmp, task_vars)
        before = time.time()
        try:
            result = self._execute_module(task_vars=task_vars)
        except AnsibleConnectionFailure as exc:
            return self._failure("connection", str(exc))
        except AnsibleError as exc:
            return self._failure(failure_kind(str(exc)), str(exc))
        after = time.time()
        if "node" in result:
            result["clock_offset_s"] = clock_offset(before, result["node"]["began"], result["node"]["epoch"], after)
            return dict(result)
        parts = (result.get("msg"), result.get("module_stderr"), result.get("module_stdout"))
        text = "\n".join(str(part) for part in parts if part)
        return self._failure(failure_kind(text), text)

    def _failure(self, kind: str, text: str) -> dict[str, Any]:
        """Return the result for a node that did not answer."""
        address = str(self._play_context.remote_addr or "")
        result = {"changed": False, "reached": False, "failure": kind, "message": short_message(text, address)}
        if kind == "connection" and self._task.args.get("leave_out_unreachable"):
            result |= {"unreachable": True, "msg": f"{result['message']}; skipped in this run"}
        return result
