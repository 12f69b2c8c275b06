"""Module that gives a host its SPANK plugins, and takes away those that are no longer declared."""

from __future__ import annotations

DOCUMENTATION = r"""
module: spank_plugins
author: busbar contributors
short_description: Keep a host's SPANK plugins as declared
description:
  - Installs a library first and the line that loads it last; removes the line first and the library last. So no job
    ever meets a line without its library.
  - A library for another release of Slurm is refused before anything changes.
  - After a change srun is asked whether it loads the plugins and shows their options, slurmd reads its plugins again,
    and a job step runs on the node. When one of these fails, the old lines are put back, slurmd reads these, and the
    node is given back to Slurm if the failed step drained it.
  - slurmd reads them also where nothing else changes and the running one lacks a library.
notes:
  - Writes one file for each plugin in C(/etc/slurm/plugstack.conf.d), and its library beside those of Slurm.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  plugins:
    description: What the filter C(spank_plan) gave for this host. Whatever else was installed is removed.
    type: list
    elements: dict
    default: []
  contents:
    description: Libraries in base64 by their C(id), as far as hosts lack them.
    type: dict
    default: {}
  slurm:
    description: Version of Slurm on this host.
    type: str
    required: true
  node:
    description: Name of this host in Slurm; where no slurmd runs, or it is empty, no job step is run.
    type: str
    default: ""
  unload_only:
    description: Only take out what was installed for another release of Slurm than O(slurm).
    type: bool
    default: false
  state:
    description: Directory with the record of what is installed.
    type: path
    default: /var/lib/busbar/spank
  configuration:
    description: Directory that plugstack.conf includes.
    type: path
    default: /etc/slurm/plugstack.conf.d
"""

EXAMPLES = r"""
- name: Keep the plugins
  busbar.cluster.spank_plugins:
    plugins: "{{ example_plan.hosts[inventory_hostname] }}"
    slurm: "{{ example_plugins.spank.slurm }}"
"""

RETURN = r"""
changed_paths:
  description: The files that were (or in check mode would be) written or removed.
  returned: always
  type: list
  elements: str
unproven:
  description: Why no job step could be run with the changed plugins; empty when one ran, or nothing changed.
  returned: always
  type: str
"""

import base64
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import before_write
from ..module_utils.slurm import spank_proof
from ..module_utils.slurm.shared_object import slurm_of_plugin
from ..module_utils.slurm.spank_store import release_of

Item = dict[str, Any]
HEADER = "# Managed by Ansible: slurm_spank_plugins declares what is loaded.\n"
PREFIX = "busbar-"


class Host:
    """The plugins of this host: its record, its libraries and its lines."""

    def __init__(self, module: AnsibleModule):
        """Read the record."""
        self.module = module
        self.slurm = module.params["slurm"]
        self.record = Path(module.params["state"]) / "installed.json"
        self.configuration = Path(module.params["configuration"])
        try:
            self.installed: dict[str, Item] = json.loads(self.record.read_text())
        except (OSError, ValueError):
            self.installed = {}
        self.changed: list[str] = []
        self.unproven = ""
        self.diff: list[dict[str, str]] = []

    def line_file(self, name: str) -> Path:
        """Return the file with the line of a plugin."""
        return self.configuration / f"{PREFIX}{name}.conf"

    def foreign(self) -> list[str]:
        """Return what is installed for another release of Slurm."""
        return [name for name, item in self.installed.items() if release_of(item["slurm"]) != release_of(self.slurm)]

    def library_of(self, item: Item) -> bytes | None:
        """Return the new library of a plugin, None where the right one is installed; fail when it cannot be loaded."""
        path = Path(item["library"])
        if item["id"]:
            if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == item["sha256"]:
                return None
            data = base64.b64decode(self.module.params["contents"].get(item["id"], ""))
            if hashlib.sha256(data).hexdigest() != item["sha256"]:
                self.module.fail_json(msg=f"{item['name']}: the library from the store came damaged or not at all")
        elif path.exists():
            data = path.read_bytes()
        else:
            self.module.fail_json(msg=f"{item['name']}: there is no {path}. Remedy: name the package that brings it")
        self.refuse_foreign(item, data)
        return data if item["id"] else None

    def refuse_foreign(self, item: Item, data: bytes) -> None:
        """Fail the module when a library is none for the Slurm of this host."""
        try:
            made_for = slurm_of_plugin(data)
        except ValueError as exc:
            self.module.fail_json(msg=f"{item['name']} {item['version']}: {item['library']}: {exc}")
        if release_of(made_for) != release_of(self.slurm):
            self.module.fail_json(
                msg=f"{item['name']} {item['version']}: {item['library']} is built for Slurm {made_for}, but this host "
                f"has Slurm {self.slurm}, which would refuse it. It was not installed. Remedy: build it against Slurm "
                f"{self.slurm}"
            )

    def write(self, path: Path, data: bytes) -> None:
        """Replace a file whole, mode 0644."""
        before_write(self.module, {str(path): data})
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".busbar-", dir=path.parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(path)

    def remove(self, names: list[str]) -> None:
        """Take plugins out: all lines first, then the libraries that are ours."""
        for name in names:
            path = self.line_file(name)
            self.note(path, path.read_text() if path.exists() else "", "")
            if not self.module.check_mode:
                before_write(self.module, {str(path): None})
                path.unlink(missing_ok=True)
        for name in names:
            item = self.installed.pop(name)
            if item["ours"] and not self.module.check_mode:
                Path(item["library"]).unlink(missing_ok=True)

    def note(self, path: Path, before: str, after: str) -> None:
        """Note that a file changes."""
        self.changed.append(str(path))
        self.diff.append({"before": before, "after": after, "before_header": str(path), "after_header": str(path)})

    def save(self) -> None:
        """Write the record."""
        self.write(self.record, (json.dumps(self.installed, indent=2) + "\n").encode())

    def prepare(self, plugins: list[Item]) -> list[tuple[Item, bytes | None]]:
        """Return each plugin with its new library, all of them looked at; in check mode it may still be to be built."""
        later = self.module.check_mode
        return [
            (item, None if later and item["id"] and not item["sha256"] else self.library_of(item)) for item in plugins
        ]

    def install(self, new: list[tuple[Item, bytes | None]]) -> None:
        """Bring libraries and lines, and see that srun takes them; else put the old lines back."""
        check, plugins = self.module.check_mode, [item for item, _ in new]
        texts = {item["name"]: f"{HEADER}{item['line']}\n" for item in plugins}
        before = {name: self.text_of(name) for name in texts}
        for item, data in new:
            if data is not None or (check and item["id"] and not Path(item["library"]).exists()):
                self.note(Path(item["library"]), "", f"(for Slurm {item['slurm']})\n")
            if data is not None and not check:
                self.write(Path(item["library"]), data)
        differing = [name for name in texts if texts[name] != before[name]]
        for name in differing:
            self.note(self.line_file(name), before[name], texts[name])
            if not check:
                self.write(self.line_file(name), texts[name].encode())
        if self.changed and not check:
            self.try_out(plugins, before)
        self.have_slurmd_read(plugins, before)
        for item in plugins:
            self.replace_record(item)

    def replace_record(self, item: Item) -> None:
        """Note what is installed now, and remove the library that it replaces."""
        former = self.installed.get(item["name"])
        path = Path(item["library"])
        self.installed[item["name"]] = {
            "version": item["version"],
            "slurm": item["slurm"],
            "library": item["library"],
            "line": item["line"],
            "file": str(self.line_file(item["name"])),
            "ours": bool(item["id"]),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "",
        }
        if former and former["ours"] and former["library"] != item["library"] and not self.module.check_mode:
            Path(former["library"]).unlink(missing_ok=True)

    def text_of(self, name: str) -> str:
        """Return the text with the line of a plugin; '' when there is none."""
        path = self.line_file(name)
        return path.read_text() if path.exists() else ""

    def try_out(self, plugins: list[Item], before: dict[str, str]) -> None:
        """See that srun loads the plugins and shows their options; else put the old lines back and fail."""
        status, out, err = self.module.run_command(["srun", "--help"])
        missing = [option for item in plugins for option in item["provides"] if option not in out]
        if status == 0 and not missing:
            return
        self.put_back(before)
        said = " | ".join(line for line in err.splitlines() if "error" in line)[:500]
        fault = f"does not show {', '.join(missing)}" if missing and status == 0 else f"ends with {status}: {said}"
        self.fail_with(plugins, f"`srun --help` {fault}")

    def have_slurmd_read(self, plugins: list[Item], before: dict[str, str]) -> None:
        """Have the running slurmd load what is installed, and prove it by a job step; else put the old lines back."""
        run, node = self.module.run_command, self.module.params["node"]
        libraries = [item["library"] for item in plugins]
        pid = spank_proof.slurmd_pid(run) if node else 0
        if not pid or not (self.changed or spank_proof.not_loaded(pid, libraries)):
            return
        if not self.changed:
            self.changed.append("slurmd")
        if self.module.check_mode:
            return
        state = spank_proof.state_of(run, node)
        fault = spank_proof.reload_slurmd(run, libraries)
        proof = spank_proof.Proof(fault=fault) if fault or not plugins else spank_proof.job_step(run, node, state)
        self.unproven = proof.unproven
        if proof.fault:
            self.put_back(before)
            spank_proof.reload_slurmd(run, [])
            resumed = spank_proof.resume_after_failure(run, node, state)
            self.fail_with(plugins, proof.fault + (f". {node}, which that drained, was resumed" if resumed else ""))

    def put_back(self, before: dict[str, str]) -> None:
        """Write the lines that were there, and remove those that were not."""
        for name, text in before.items():
            if text:
                self.write(self.line_file(name), text.encode())
            else:
                self.line_file(name).unlink(missing_ok=True)

    def fail_with(self, plugins: list[Item], fault: str) -> None:
        """Fail the module; the lines are those from before."""
        names = ", ".join(item["name"] for item in plugins)
        self.module.fail_json(msg=f"with {names} {fault}. The lines that load them were taken back, so that jobs go on")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "plugins": {"type": "list", "elements": "dict", "default": []},
            "contents": {"type": "dict", "default": {}},
            "slurm": {"type": "str", "required": True},
            "node": {"type": "str", "default": ""},
            "unload_only": {"type": "bool", "default": False},
            "state": {"type": "path", "default": "/var/lib/busbar/spank"},
            "configuration": {"type": "path", "default": "/etc/slurm/plugstack.conf.d"},
        },
        supports_check_mode=True,
    )
    host, plugins = Host(module), module.params["plugins"]
    wanted = {item["name"] for item in plugins}
    former = json.dumps(host.installed)
    if module.params["unload_only"]:
        host.remove(host.foreign())
    else:
        new = host.prepare(plugins)
        host.remove([name for name in host.installed if name not in wanted])
        host.install(new)
    if not module.check_mode and json.dumps(host.installed) != former:
        host.save()
    found = {"changed_paths": host.changed, "diff": host.diff, "unproven": host.unproven}
    module.exit_json(changed=bool(host.changed), **found)


if __name__ == "__main__":
    main()
