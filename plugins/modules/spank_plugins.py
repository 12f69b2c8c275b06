"""Module that manages the lines in plugstack.conf that load SPANK plugins."""

from __future__ import annotations

DOCUMENTATION = r"""
module: spank_plugins
author: busbar contributors (!UNKNOWN)
short_description: Manage the SPANK plugins that a host loads
description:
  - Writes and removes one file per plugin in C(/etc/slurm/plugstack.conf.d). The libraries come from packages.
  - Refuses a library for another release of Slurm before any change.
  - After a change, checks that srun loads the plugins and shows their options, reloads slurmd, and runs a job step on
    the node. If a check fails, the previous lines are restored, slurmd is reloaded, and the node is resumed if the
    failed job step drained it. slurmd is also reloaded if it has not loaded one of the plugins.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  state:
    description: >-
      V(read) changes nothing. V(unloaded) removes the lines of plugins that were built for a release other than
      O(slurm).
    type: str
    choices: [read, unloaded, kept]
    default: kept
  plugins:
    description: Items of C(slurm_spank_plugins). With O(state=kept), the lines of all others are removed.
    type: list
    elements: dict
    default: []
  slurm:
    description: Version of Slurm, if it is not the installed one.
    type: str
    default: ""
  node:
    description: Name of this host in Slurm. If it is empty or slurmd does not run, no job step is run.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Keep the plugins
  busbar.cluster.spank_plugins:
    plugins: "{{ slurm_spank_plugins }}"
    node: "{{ inventory_hostname }}"
"""

RETURN = r"""
changed_paths:
  description: The files that were (or in check mode would be) written or removed.
  returned: always
  type: list
  elements: str
unproven:
  description: Reason why no job step could be run with the changed plugins.
  returned: always
  type: str
stale:
  description: Packages of plugins that no line loads.
  returned: always
  type: list
  elements: str
spank:
  description:
    - C(slurm), the installed version; C(headers), that of its headers; C(architecture); C(system), such as debian13;
      C(platform), the build target of plugins; C(format) of packages; C(schedmd), whether SchedMD built Slurm.
    - C(installed), the plugins with a line; C(foreign), those that this Slurm cannot load.
    - C(plugins), the built plugins, with C(library), C(package), its C(file), and whether the library is C(missing).
  returned: always
  type: dict
"""

import contextlib
import os
import platform
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import before_write
from ..module_utils.slurm import spank_check
from ..module_utils.slurm.elf_symbols import header_release, slurm_of_plugin
from ..module_utils.slurm.spank_package_names import DIRECTORY, PREFIX, plugin_line, plugin_package, release_of

Item = dict[str, Any]
HEADER = "# Managed by Ansible: slurm_spank_plugins declares what is loaded.\n"
LINES = Path("/etc/slurm/plugstack.conf.d")
LIBRARIES = Path(DIRECTORY)
RELEASE = Path("/etc/os-release")
SLURM_HEADER = Path("/usr/include/slurm/slurm_version.h")
# SchedMD's packages for Debian and Ubuntu are slurm-smd, slurm-smd-slurmd and so on (debian/control of 23.11).
PACKAGES = Path("/var/lib/dpkg/info")
# Directories of earlier busbar releases.
EARLIER = (Path("/usr/local/lib/busbar/spank"), Path("/var/lib/busbar/spank"))
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)")


def slurm_version(text: str) -> str:
    """Return the version in the output of a program: 'slurm-wlm 24.11.5' gives '24.11.5'; '' if it has none."""
    found = _VERSION.search(text)
    return f"{int(found[1])}.{int(found[2]):02d}.{int(found[3])}" if found else ""


def system_of(text: str) -> str:
    """Return distribution and version from the text of os-release: 'debian13'."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return (pairs.get("ID", "") + pairs.get("VERSION_ID", "")).replace('"', "")


def host_info(module: AnsibleModule) -> dict[str, Any]:
    """Return the host's Slurm version and the platform that a plugin must be built for."""
    programs = (program for program in ("scontrol", "slurmd") if module.get_bin_path(program))
    versions = (slurm_version(module.run_command([program, "-V"])[1]) for program in programs)
    info = {
        "slurm": next(filter(None, versions), ""),
        "architecture": platform.machine(),
        "system": system_of(RELEASE.read_text()),
        "format": "deb" if module.get_bin_path("dpkg-deb") else "rpm",
    }
    return info | {
        "platform": f"Slurm {info['slurm']} ({info['architecture']}, {info['system']})",
        "headers": header_release(SLURM_HEADER.read_text()) if SLURM_HEADER.exists() else "",
        "schedmd": any(PACKAGES.glob("slurm-smd*.list")),
    }


class Host:
    """The host's plugstack.conf lines and the libraries that they load."""

    def __init__(self, module: AnsibleModule):
        """Read the lines."""
        self.module = module
        self.info = host_info(module)
        self.slurm = module.params["slurm"] or self.info["slurm"]
        self.installed: dict[str, str] = {}
        for path in sorted(LINES.glob("busbar-*.conf")):
            words = (path.read_text().splitlines() or [""])[-1].split()
            self.installed[path.stem.removeprefix("busbar-")] = words[1] if len(words) > 1 else ""
        self.changed: list[str] = []
        self.unproven = ""
        self.diff: list[dict[str, str]] = []

    def wanted(self, plugin: Item) -> Item:
        """Return a plugin with its library, package and line."""
        built = {} if plugin.get("library") else plugin_package(plugin, self.info)
        library = built.get("library") or plugin["library"]
        return plugin | built | {"library": library, "line": plugin_line(plugin, library)}

    def foreign(self) -> list[str]:
        """Return the plugins whose library is missing or built for another Slurm release."""
        release = release_of(self.slurm)
        return [name for name, library in self.installed.items() if self.release_of_library(library) != release]

    def release_of_library(self, library: str) -> str:
        """Return the Slurm release that a library was built for; '' if Slurm cannot load it."""
        with contextlib.suppress(OSError, ValueError):
            return release_of(slurm_of_plugin(Path(library).read_bytes()))
        return ""

    def stale(self) -> list[str]:
        """Return the packages of plugins that no line loads."""
        kept = set(self.installed.values())
        return [PREFIX + path.stem for path in sorted(LIBRARIES.glob("*.so")) if str(path) not in kept]

    def refuse(self, item: Item) -> None:
        """Fail the module if Slurm cannot load a library."""
        path, label = Path(item["library"]), f"{item['name']} {item['version']}"
        if not path.exists() and self.module.check_mode and item.get("package"):
            return
        if not path.exists():
            package = item.get("package")
            remedy = f"reinstall the package {package}" if package else "set package to the package that provides it"
            self.module.fail_json(msg=f"{label}: {path} is missing. Remedy: {remedy}")
        try:
            made_for = slurm_of_plugin(path.read_bytes())
        except ValueError as exc:
            self.module.fail_json(msg=f"{label}: {path}: {exc}")
        if release_of(made_for) != release_of(self.slurm):
            self.module.fail_json(
                msg=f"{label}: {path} is built for Slurm {made_for}, but this host has Slurm {self.slurm}, "
                "which would reject it. Nothing was changed. Remedy: build it against Slurm "
                f"{self.slurm}"
            )

    def line_file(self, name: str) -> Path:
        """Return the file with the line of a plugin."""
        return LINES / f"busbar-{name}.conf"

    def write(self, path: Path, text: str) -> None:
        """Replace a file atomically with mode 0644, or remove it if the text is empty."""
        before_write(self.module, {str(path): text or None})
        if not text:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".busbar-", dir=path.parent)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)

    def change(self, name: str, text: str) -> None:
        """Record a new line for a plugin, and write it except in check mode."""
        path = self.line_file(name)
        self.changed.append(str(path))
        diff = {"before": self.text_of(name), "after": text, "before_header": str(path), "after_header": str(path)}
        self.diff.append(diff)
        if not self.module.check_mode:
            self.write(path, text)

    def text_of(self, name: str) -> str:
        """Return the text with the line of a plugin; '' if it has none."""
        path = self.line_file(name)
        return path.read_text() if path.exists() else ""

    def remove(self, names: list[str]) -> None:
        """Remove the lines of plugins."""
        for name in names:
            self.change(name, "")
            del self.installed[name]

    def keep(self, items: list[Item]) -> None:
        """Write the declared lines, and check that Slurm runs jobs with them; otherwise restore the old lines."""
        for item in items:
            self.refuse(item)
        texts = {item["name"]: f"{HEADER}{item['line']}\n" for item in items}
        self.remove([name for name in self.installed if name not in texts])
        before = {name: self.text_of(name) for name in texts}
        for name, text in texts.items():
            if text != before[name]:
                self.change(name, text)
        if self.changed and not self.module.check_mode:
            self.try_out(items, before)
        self.have_slurmd_read(items, before)
        self.installed = {item["name"]: item["library"] for item in items}
        if not self.module.check_mode:
            for path in EARLIER:
                shutil.rmtree(path, ignore_errors=True)

    def try_out(self, items: list[Item], before: dict[str, str]) -> None:
        """Check that srun loads the plugins and shows their options; otherwise restore the old lines and fail."""
        status, out, err = self.module.run_command(["srun", "--help"])
        missing = [option for item in items for option in item.get("provides") or [] if option not in out]
        if status == 0 and not missing:
            return
        self.put_back(before)
        output = " | ".join(line for line in err.splitlines() if "error" in line)[:500]
        fault = (
            f"does not show {', '.join(missing)}"
            if missing and status == 0
            else f"exited with status {status}: {output}"
        )
        self.fail_with(items, f"`srun --help` {fault}")

    def have_slurmd_read(self, items: list[Item], before: dict[str, str]) -> None:
        """Make slurmd load the plugins, and verify it with a job step; otherwise restore the old lines and fail."""
        run, node = self.module.run_command, self.module.params["node"]
        libraries = [item["library"] for item in items]
        pid = spank_check.slurmd_pid(run) if node else 0
        if not pid or not (self.changed or spank_check.not_loaded(pid, libraries)):
            return
        if not self.changed:
            self.changed.append("slurmd")
        if self.module.check_mode:
            return
        state = spank_check.state_of(run, node)
        fault = spank_check.reload_slurmd(run, libraries)
        proof = spank_check.Proof(fault=fault) if fault or not items else spank_check.job_step(run, node, state)
        self.unproven = proof.unproven
        if proof.fault:
            self.put_back(before)
            spank_check.reload_slurmd(run, [])
            resumed = spank_check.resume_after_failure(run, node, state)
            self.fail_with(
                items, proof.fault + (f". Slurm had drained {node} for this; the node was resumed" if resumed else "")
            )

    def put_back(self, before: dict[str, str]) -> None:
        """Restore the previous lines, and remove new ones."""
        for name, text in before.items():
            self.write(self.line_file(name), text)

    def fail_with(self, items: list[Item], fault: str) -> None:
        """Fail the module after the previous lines were restored."""
        names = ", ".join(item["name"] for item in items)
        self.module.fail_json(
            msg=f"with {names} {fault}. The lines that load these plugins were reverted, so that jobs can run"
        )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["read", "unloaded", "kept"], "default": "kept"},
            "plugins": {"type": "list", "elements": "dict", "default": []},
            "slurm": {"type": "str", "default": ""},
            "node": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    host = Host(module)
    items = [host.wanted(plugin) for plugin in module.params["plugins"]]
    if module.params["state"] == "unloaded":
        host.remove(host.foreign())
    elif module.params["state"] == "kept":
        host.keep(items)
    built = [item | {"missing": not Path(item["library"]).exists()} for item in items if item.get("package")]
    module.exit_json(
        changed=bool(host.changed),
        changed_paths=host.changed,
        diff=host.diff,
        unproven=host.unproven,
        stale=host.stale(),
        spank=host.info | {"installed": list(host.installed), "foreign": host.foreign(), "plugins": built},
    )


if __name__ == "__main__":
    main()
