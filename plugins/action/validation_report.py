"""Action behind the module `busbar.cluster.validation_report`: runs where ansible-playbook does, with its libraries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

SPEC = {
    "folder": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "writable"], "default": "present"},
}


def unwritable(folder: Path) -> str:
    """Return why a folder cannot be made or written, or nothing."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{folder}: {place} is no folder"
    return "" if os.access(place, os.W_OK | os.X_OK) else f"{folder}: {place} cannot be written by this user"


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Writes the files beside report.json; what goes wrong is told, and never hides the verdict."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the paths written, or why they could not be."""
        result = dict(super().run(tmp, task_vars)) | {"changed": False}
        _checked, arguments = self.validate_argument_spec(SPEC)
        folder = Path(arguments["folder"])
        if arguments["state"] == "writable":
            problem = unwritable(folder)
            return result | ({"failed": True, "msg": f"reports cannot be kept in {problem}"} if problem else {})
        if self._task.check_mode:
            return result | {"skipped": True, "msg": "check mode writes nothing"}
        try:
            from ..plugin_utils.report_files import write_pages  # noqa: PLC0415, TID252 - a library may be missing

            paths = write_pages(folder)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the verdict must still be told
            message = f"the pages of the report could not be written: {type(exc).__name__}: {exc}"
            return result | {"failed": True, "msg": message}
        return result | {"changed": True, "paths": [str(path) for path in paths]}
