"""Action plugin of `busbar.cluster.templates`: renders the files of a task on the provisioning host."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader

from ..plugin_utils.programs import program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPEC: dict[str, dict[str, Any]] = {
    "files": {"type": "list", "elements": "dict", "default": []},
    "more": {"type": "list", "elements": "dict", "default": []},
    "pending": {"type": "path"},
}
# Keys that are passed to the module.
HANDED_ON = ("mode", "owner", "group", "validate", "hidden", "state")
KEYS = ("dest", "src", "content", "program", "vars", "when", *HANDED_ON)
STATES = ("present", "absent")


def checked(listed: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """Return the files whose condition (`when`) is true.

    Args:
        listed: the files of the task, with the keys of `KEYS`.
        more: rendered files, with `path`.

    Raises:
        ValueError: if an entry is invalid; the message contains file and key.
    """
    for entry in listed:
        _check(entry)
    kept = [dict(entry) for entry in listed if boolean(entry.get("when", True))]
    counts = Counter([*(entry["dest"] for entry in kept), *(str(entry.get("path")) for entry in more)])
    twice = [dest for dest, count in counts.items() if count > 1]
    if twice:
        message = f"{twice[0]} is listed twice: remove one of the entries, or add conditions (when)"
        raise ValueError(message)
    return kept


def _check(entry: Mapping[str, Any]) -> None:
    """Raise ValueError if an entry has unknown, conflicting or invalid keys."""
    dest = entry.get("dest")
    if not isinstance(dest, str) or not dest.startswith("/") or PurePosixPath(dest).name in {"", ".."}:
        message = f"dest: {dest!r} is not an absolute path: set it for each of the files"
        raise ValueError(message)
    unknown = sorted(set(entry) - set(KEYS))
    if unknown:
        message = f"{dest}: {unknown[0]} is not a known key: use {', '.join(KEYS)}"
        raise ValueError(message)
    given = [key for key in ("src", "content", "program") if key in entry]
    if given[1:]:
        message = f"{dest}: {given[0]} and {given[1]} cannot be combined: remove one"
        raise ValueError(message)
    if entry.get("state", "present") not in STATES:
        message = f"{dest}: state: {entry['state']!r} is not valid: use {' or '.join(STATES)}"
        raise ValueError(message)
    try:
        boolean(entry.get("when", True))
    except TypeError:
        message = f"{dest}: when: {entry['when']!r} must be true or false"
        raise ValueError(message) from None


def sources(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the possible sources of an entry as role folder and relative path; the first existing one is used."""
    src = entry.get("src")
    if src is None:
        below = entry["dest"].lstrip("/")
        return [("templates", f"{below}.j2"), ("files", below)]
    return [("templates" if str(src).endswith(".j2") else "files", str(src))]


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible has no types
    """Renders all files on the provisioning host, and writes them with a single call of the module."""

    TRANSFERS_FILES = False

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Render the files and return the module's result."""
        super().run(tmp, task_vars)
        _checked, given = self.validate_argument_spec(SPEC)
        made = [entry for entry in given["more"] if "src" not in entry]
        rendered = [
            {"dest": entry.get("path"), **{key: value for key, value in entry.items() if key != "path"}}
            for entry in given["more"]
            if "src" in entry
        ]
        try:
            files = [each for entry in given["files"] for each in self._of_folder(entry, task_vars or {})]
            listed = checked([*rendered, *files], made)
        except ValueError as error:
            raise AnsibleActionFail(self._format(error)) from None
        texts = [*made, *(self._file(entry, task_vars or {}) for entry in listed)]
        arguments = {"files": texts}
        if given["pending"]:
            arguments["pending"] = given["pending"]
        return dict(self._execute_module(module_args=arguments, task_vars=task_vars))

    def _format(self, problem: object) -> str:
        """Return the problem prefixed with the task name."""
        return f"task '{self._task.name}': {problem}"

    def _of_folder(self, entry: dict[str, Any], task_vars: dict[str, Any]) -> list[dict[str, Any]]:
        """Return one entry per file if the source is a folder, else the entry itself."""
        source = str(entry.get("src") or "")
        if not source.endswith("/"):
            return [entry]
        names = sorted(path.name for path in self._found(entry, source, task_vars).iterdir() if path.is_file())
        return [{**entry, "dest": f"{entry.get('dest')}/{name}", "src": f"{source}{name}"} for name in names]

    def _file(self, entry: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return an entry in the module's format."""
        kept = {"path": entry["dest"], **{key: entry[key] for key in HANDED_ON if key in entry}}
        if entry.get("state") == "absent":
            return kept
        if "program" in entry:
            return {"mode": "0755", **kept, "packed": self._packed(entry, task_vars)}
        return kept | {"content": entry["content"] if "content" in entry else self._text(entry, task_vars)}

    def _packed(self, entry: dict[str, Any], task_vars: dict[str, Any]) -> str:
        """Return a program, compressed and base64-encoded."""
        found = [self._found(entry, name, task_vars) for name in entry["program"]]
        try:
            return base64.b64encode(zlib.compress(program(found))).decode()
        except FileNotFoundError as error:
            raise AnsibleActionFail(self._format(f"{entry['dest']}: {error}")) from None

    def _found(self, entry: dict[str, Any], name: str, task_vars: dict[str, Any]) -> Path:
        """Return the path of a file or folder below the role's `files/`."""
        lookup = lookup_loader.get("file", loader=self._loader, templar=self._templar)
        found = lookup.find_file_in_search_path(task_vars, "files", name, ignore_missing=True)
        if not found:
            message = f"{entry.get('dest')}: files/{name} does not exist in the role: add it, or correct the entry"
            raise AnsibleActionFail(self._format(message))
        return Path(found)

    def _text(self, entry: dict[str, Any], task_vars: dict[str, Any]) -> str:
        """Return the rendered template, or the text of a file."""
        # The template lookup has the search path and rendering of ansible.builtin.template.
        lookup = lookup_loader.get("template", loader=self._loader, templar=self._templar)
        places = sources(entry)
        for folder, path in places:
            found = lookup.find_file_in_search_path(task_vars, folder, path, ignore_missing=True)
            if found and folder == "templates":
                text = lookup.run([path], variables=task_vars, template_vars=entry.get("vars") or {})[0]
                return "" if text is None else str(text)
            if found:
                return str(self._loader.get_text_file_contents(found))
        wanted = " or ".join(f"{folder}/{path}" for folder, path in places)
        message = f"{entry['dest']}: {wanted} does not exist in the role: add it, or set src"
        raise AnsibleActionFail(self._format(message))
