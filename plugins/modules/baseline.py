"""Module that saves the state of a host before the first change, and restores that state."""

from __future__ import annotations

DOCUMENTATION = r"""
module: baseline
author: busbar contributors (!UNKNOWN)
short_description: Save the state of a host before the first change, and restore it
description:
  - Saves packages, accounts, units and C(/etc) in C(/var/lib/busbar/baseline), unless a baseline exists. The other
    modules of busbar do this automatically. Use this module before a builtin module makes the first change.
  - With O(state=restored), compares the host with that baseline, removes packages and files that busbar added, and
    restores files that it replaced. Home directories, O(data) and files of other software stay. Changed files are kept
    in C(/var/lib/busbar/kept). A repeated run resumes an interrupted one.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  state: {description: Desired state., type: str, choices: [saved, restored], default: saved}
  written:
    description: Files that a builtin module has changed. An uninstallation restores them.
    type: list
    elements: path
    default: []
  host: {description: Name of the host for messages., type: str, default: ""}
  data: {description: Directories that are never changed., type: list, elements: path, default: []}
  accounts: {description: Users and groups that busbar creates., type: list, elements: str, default: []}
  units: {description: Units whose previous state is restored., type: list, elements: str, default: []}
  blocks: {description: Blocks of blockinfile with C(path) and C(name)., type: list, elements: dict, default: []}
  made:
    description: Patterns of paths that builtin modules write, each with C(path) and C(content) (may be empty).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Save the state of the host
  busbar.cluster.baseline:

- name: Restore the host
  busbar.cluster.baseline: {state: restored, host: "{{ inventory_hostname }}", data: [/shared]}
"""

RETURN = r""" # """

import contextlib
import json
import os
import pwd
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.baseline import BASELINE, before_write, listed_paths, signs_of_busbar, units
from ..module_utils.uninstall.host_state import BUSBAR, KEPT, RefusedError, is_below
from ..module_utils.uninstall.paths import top_paths
from ..module_utils.uninstall.remove_packages import AWAY
from ..module_utils.uninstall.services import ServicesOfHost

REMEDY = (
    "reinstall the machine, or remove it from the cluster with `busbar provision remove_nodes` and keep its files. "
    "If /var/lib/busbar/record exists, uninstall the host with the busbar release that wrote it. Nothing was changed"
)
# Downloaded package files.
CACHE = Path("/var/cache/busbar")
# Written by package managers and the system.
_OF_THE_SYSTEM = (
    *("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log/apt", "/var/log/journal", "/var/log/dpkg.log"),
    *("/var/lib/rpm", "/var/lib/dnf", "/var/lib/systemd", "/var/lib/pam", "/var/lib/ucf"),
    "/etc/ld.so.cache",
    *(f"{pwd.getpwuid(0).pw_dir}/{name}" for name in (".ansible", ".cache")),
)


class Host(ServicesOfHost):
    """A host, restored in a safe order."""

    def run(self) -> None:
        """Restore the host, or list the changes in check mode.

        Raises:
            RefusedError: the host cannot be restored completely; nothing was changed.
        """
        dry = self.module.check_mode
        if not dry:
            self.release_guarded()
            for path in self.given["data"]:
                self.move_data_back(path)
        self.data = [path for path in self.given["data"] if os.path.lexists(path)]
        self.plan_packages()
        former = units(self.module)
        self.unmount()
        # Skip homes and other data on file servers, which have just been unmounted.
        self.data = [path for path in self.data if os.path.lexists(path)]
        if not dry:
            self.stop_units()
            self.stop_packaged()
        self.removed += [f"package {name}" for name in self.going]
        self.restored += [f"package {name}" for name in self.back]
        held = self.holds()
        self.files()
        self.change_packages()
        self.restored += [f"package {name}: no longer held" for name in held]
        if held and not dry:
            self.output("apt-mark", "unhold", *held)
        if not dry:
            self.empty_directories()
            self.restore_units(former)
        self.reload()
        self.accounts()
        self.kept += [f"data {path}: never removed" for path in self.data]
        if not dry:
            self.finish()

    def finish(self) -> None:
        """List unknown new paths; remove the baseline after success."""
        known = (*_OF_THE_SYSTEM, *self.data, *self.homes, str(BUSBAR))
        unknown = [path for path in listed_paths(self.module) if path not in self.before and not is_below(path, known)]
        self.kept += [f"{path}: created later by programs or users" for path in top_paths(unknown)]
        if self.problems:
            return
        for each in sorted(BUSBAR.iterdir()):
            if each in {KEPT, BASELINE, *map(Path, self.data)} or (
                each == AWAY and any(not path.is_dir() for path in each.rglob("*"))
            ):
                continue
            histories = [each] if each.suffix == ".jsonl" else sorted(each.rglob("*.jsonl"))
            for history in histories:
                self.save_copy(history, str(history), "a history")
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)
        shutil.rmtree(CACHE, ignore_errors=True)
        # Rename first, so that a partially removed baseline is never used.
        shutil.rmtree(BASELINE.rename(BASELINE.with_name("baseline.new")))
        with contextlib.suppress(OSError):
            BUSBAR.rmdir()


def refuse_older(module: AnsibleModule, signs: list[str]) -> None:
    """Fail the module if the host's previous state is unknown."""
    module.fail_json(
        msg=f"{module.params['host']}: busbar changed this host before it took a baseline ({', '.join(signs)}), so the "
        f"previous state is unknown.\n    remedy: {REMEDY}"
    )


def main() -> None:
    """Run the module."""
    lists = {name: {"type": "list", "elements": "str", "default": []} for name in ("accounts", "units")}
    dicts = {name: {"type": "list", "elements": "dict", "default": []} for name in ("blocks", "made")}
    paths = {"type": "list", "elements": "path", "default": []}
    state = {"type": "str", "choices": ["saved", "restored"], "default": "saved"}
    options = {
        "state": state,
        "written": paths,
        "host": {"type": "str", "default": ""},
        "data": paths,
        **lists,
        **dicts,
    }
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    if module.params["state"] == "saved":
        before_write(module, {name: Path(name).read_bytes() for name in module.params["written"]})
        module.exit_json(changed=False)
    path = BASELINE / "host.json"
    try:
        if not path.exists():
            if signs := signs_of_busbar():
                refuse_older(module, signs)
            module.exit_json(changed=False, removed=[], restored=[], kept=[])
        baseline = json.loads(path.read_text(encoding="utf-8"))
        if baseline["older"]:
            refuse_older(module, baseline["older"])
        host = Host(module, baseline)
        host.run()
    except (OSError, ValueError, KeyError, RefusedError) as exc:
        problem = f"{path} is damaged: {exc!r}" if isinstance(exc, (ValueError, KeyError)) else str(exc)
        module.fail_json(msg=f"{module.params['host']}: {problem}\n    remedy: fix this error and run again")
    result = {
        "changed": bool(host.removed or host.restored),
        "removed": list(dict.fromkeys(host.removed)),
        "restored": list(dict.fromkeys(host.restored)),
        "kept": list(dict.fromkeys(host.kept)),
        "diff": host.diff,
    }
    if host.problems:
        module.fail_json(msg=f"{module.params['host']}: incomplete: {'; '.join(host.problems)}", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
