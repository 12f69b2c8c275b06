"""Action plugin of `busbar.cluster.templates`: renders the files of a task on the provisioning host."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader

from ..plugin_utils.programs import program
from ..plugin_utils.template_files import HANDED_ON, checked, sources

SPEC: dict[str, dict[str, Any]] = {
    "files": {"type": "list", "elements": "dict", "default": []},
    "more": {"type": "list", "elements": "dict", "default": []},
    "pending": {"type": "path"},
}


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
