"""Action behind the module `busbar.cluster.validation_report`: runs where ansible-playbook does, with its libraries."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

SPEC = {
    "folder": {"type": "path", "required": True},
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "content": {"type": "str", "required": True}},
    },
    "nodes": {"type": "list", "elements": "str"},
    "state": {"type": "str", "choices": ["present", "writable"], "default": "present"},
}


def unwritable(folder: Path) -> str:
    """Return why a folder cannot be made or written, or nothing."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{folder}: {place} is no folder"
    # Permissions say little about root, about a share that maps him to nobody, and about what is no disk.
    try:
        Path(tempfile.mkdtemp(dir=place, prefix=".busbar.")).rmdir()
    except OSError as exc:
        return f"{folder}: {place} cannot be written by this user: {exc.strerror or exc}"
    return ""


def write_files(folder: Path, contents: dict[str, str]) -> list[Path]:
    """Write files that all may read, by name, into a folder that is made when it is not there.

    Raises:
        OSError: the folder or a file cannot be written.
        ValueError: a name is none of a file in the folder.
    """
    strange = next((name for name in contents if not name or Path(name).name != name), None)
    if strange is not None:
        message = f"{strange!r} is no name of a file in the folder"
        raise ValueError(message)
    if contents:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, content in contents.items():
        # What a node printed may be no text at all.
        (folder / name).write_bytes(content.encode("utf-8", errors="surrogateescape"))
        (folder / name).chmod(0o644)
    return [folder / name for name in contents]


def write_pages_of(folder: Path, nodes: list[str] | None) -> dict[str, Any]:
    """Write the pages beside a report.json; whatever goes wrong is told, for the verdict must not be hidden by it.

    Returns:
        ``paths`` of the pages, ``metrics``, the path of those for Prometheus or nothing, ``pages_problem``, what went
        wrong or nothing, and ``incomplete``, whether it was the disk that did not take them.
    """
    done: dict[str, Any] = {"paths": [], "metrics": "", "pages_problem": "", "incomplete": False}
    try:
        from ..plugin_utils.report_files import METRICS, write_pages  # noqa: PLC0415 - a library may be missing

        # The metrics are written before the page that may not be drawn.
        done["metrics"] = str(folder / METRICS)
        done["paths"] = [str(path) for path in write_pages(folder, nodes)]
    except Exception as exc:  # noqa: BLE001 - see above
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else f"{type(exc).__name__}: {exc}"
        done["pages_problem"] = f"the pages of the report could not be written to {folder}: {reason}"
        # A missing library is the choice of whoever runs this; a full disk leaves a report that nobody can read.
        done["incomplete"] = isinstance(exc, OSError)
    if done["metrics"] and not Path(done["metrics"]).is_file():
        done["metrics"] = ""
    return done


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Writes a report; that the pages beside it cannot be drawn is told, and never hides the verdict."""

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
            written = write_files(folder, {item["name"]: item["content"] for item in arguments["files"]})
        except (OSError, ValueError) as exc:
            return result | {"failed": True, "msg": f"the report could not be written: {exc}"}
        pages = write_pages_of(folder, arguments["nodes"])
        return result | pages | {"changed": True, "paths": [*map(str, written), *pages["paths"]]}
