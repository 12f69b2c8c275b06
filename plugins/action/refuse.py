"""Action plugin that fails a host with invalid input, and reports the problems."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils.common.problems import REFUSED, is_advice
from ..plugin_utils.common.problem_report import problem_report

SPEC: dict[str, dict[str, Any]] = {
    "problems": {"type": "list", "elements": "dict", "default": []},
    "msg": {"type": "str", "default": ""},
    "headline": {"type": "str", "default": "This step changed nothing:"},
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Fails if there are problems or a message; a key in the result marks the failure as caused by invalid input."""

    TRANSFERS_FILES = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return a failure that lists all problems, or success if the list is empty."""
        result = dict(super().run(tmp, task_vars)) | {"changed": False}
        _checked, arguments = self.validate_argument_spec(SPEC)
        problems = [each for each in arguments["problems"] if not is_advice(each)]
        notes = problem_report(each for each in arguments["problems"] if is_advice(each)).splitlines()
        result |= {"advice": notes}
        if not problems and not arguments["msg"]:
            return result
        report = "\n".join(filter(None, (arguments["headline"], problem_report(problems)))) if problems else ""
        report = "\n".join([report, "Other findings:", *notes]) if notes else report
        text = "\n".join(filter(None, (arguments["msg"], report)))
        return result | {"failed": True, "msg": text, "problems": problems, REFUSED: True}
