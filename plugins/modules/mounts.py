"""Module that mounts the shared storage of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mounts
author: busbar contributors
short_description: Mount the shared storage of a host
description:
  - Looks at the mount points, the servers and the client's software, and refuses what cannot be mounted before anything
    is changed. NFS mounts are tried first, read-only and where nobody else sees them.
  - Then makes the mount points, writes the lines of fstab, has systemd mount what is not mounted yet, and looks again.
    What is mounted already stays mounted; other lines of fstab stay as they are.
  - It never waits for a server that does not answer. What is mounted is read from C(/proc/self/mountinfo), every
    question to a server and every look at a directory has its time limit.
  - While one of O(packages) is missing, it checks all that can be checked without it, changes nothing and names it.
notes:
  - Writes lines in C(/etc/fstab).
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  mounts:
    description: The mounts.
    type: list
    elements: dict
    required: true
    suboptions:
      type:
        description: Kind of storage.
        type: str
        choices: [nfs, lustre, beegfs, weka, cephfs]
        required: true
      src:
        description: What to mount, as fstab says it.
        type: str
        required: true
      path:
        description: Mount point.
        type: str
        required: true
      options:
        description: Options of the mount.
        type: list
        elements: str
        default: []
      automount:
        description: Whether it is mounted on first use rather than at boot.
        type: bool
        default: false
  packages:
    description: Packages of the clients, which must be installed first.
    type: list
    elements: str
    default: []
  boot_wait_s:
    description: For how many seconds a host that boots waits for a server.
    type: int
    required: true
  timeout_s:
    description: For how many seconds a server may fail to answer.
    type: int
    default: 20
  home_base:
    description: Directory of the homes of users, for RV(home_mounts).
    type: str
    default: ""
  host:
    description: Name of the host, for the problems.
    type: str
    required: true
  key:
    description: Name of the variable that declares the mounts, for the problems.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Mount the shared storage
  busbar.cluster.mounts:
    mounts:
      - {type: nfs, src: "10.0.0.10:/shared", path: /shared, options: [vers=4.2]}
    packages: [nfs-common]
    boot_wait_s: 300
    host: "{{ inventory_hostname }}"
    key: storage_mounts_entries
  register: __example_mounts
"""

RETURN = r"""
states:
  description:
    - By mount point what was found there, V(mounted), V(waiting) (for an automount), V(free) or V(taken).
  type: dict
  returned: always
missing_packages:
  description: Those of O(packages) that are not installed. While there is one, nothing is changed.
  type: list
  elements: str
  returned: success
home_mounts:
  description: Mount points of NFS on which homes below O(home_base) lie, or some of them.
  type: list
  elements: str
  returned: success
notes:
  description: Servers that do not answer yet in check mode; mounts that still have their old options.
  type: list
  elements: str
  returned: success
problems:
  description:
    - Why nothing was done, each with C(hosts), C(key), C(problem) and C(remedy).
    - C(about) is V(place), V(server) (which does not answer) or V(client).
  type: list
  elements: dict
  returned: failure
"""

import grp
import pwd
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import current_text, keep_files, make_directory
from ..module_utils.common.installed_packages import installed_versions
from ..module_utils.common.problems import problem_lines
from ..module_utils.common.refusal import refusal
from ..module_utils.storage.fstab import fstab_text
from ..module_utils.storage.mount_look import Examination
from ..module_utils.storage.mounts import STORAGE_TYPES
from ..module_utils.storage.plan import mount_plan, nfs_home_mounts

FSTAB = Path("/etc/fstab")
THERE = {"mounted", "waiting"}
# In check mode the server may be one that a real run would have made by now.
CHECK_TIMEOUT_S = 2
# How much longer than a trial a mount may take: a server that went away since it was tried.
START_S = 100


def examine(module: AnsibleModule, *, client_ready: bool) -> Examination:
    """Return what was found at the mount points, the servers and the client."""
    given = module.params
    timeout_s = min(CHECK_TIMEOUT_S, given["timeout_s"]) if module.check_mode else given["timeout_s"]
    found = Examination(module, given["host"], given["key"], timeout_s)
    found.look(given["mounts"], client_ready=client_ready)
    return found


def texts(problems: list[Any]) -> list[str]:
    """Return problems as lines of text."""
    return [line for item in problems for line in problem_lines(item, ",".join(item["hosts"]))]


def refuse(module: AnsibleModule, found: Examination) -> list[str]:
    """Fail where something cannot be mounted; return what is only worth a note in check mode."""
    late: list[Any] = [item for item in found.problems if module.check_mode and item["about"] == "server"]
    wrong: list[Any] = [item for item in found.problems if item not in late]
    if any(item["about"] != "client" for item in wrong):
        message = "\n".join(["Nothing was mounted:", *texts(wrong)])
        module.fail_json(msg=message, problems=wrong, states=found.states)
    if wrong:
        module.fail_json(states=found.states, **refusal("Nothing was mounted:", wrong))
    return texts(late)


def write_fstab(module: AnsibleModule, plan: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, str]]]:
    """Write the lines of fstab; return the paths of the mounts with a new line, and the diff.

    Raises:
        OSError: it cannot be read or written.
    """
    path = FSTAB.resolve()
    text, rewritten = fstab_text(current_text(path) or "", plan)
    if not rewritten:
        return [], []
    item = {"path": str(path), "content": text}
    if path.exists():
        had = path.stat()
        owner, group = pwd.getpwuid(had.st_uid).pw_name, grp.getgrgid(had.st_gid).gr_name
        item |= {"mode": f"{had.st_mode & 0o7777:04o}", "owner": owner, "group": group}
    _paths, diff = keep_files(module, [item], unsafe_writes=True)
    return rewritten, diff


def systemctl(module: AnsibleModule, key: str, *words: str) -> None:
    """Run systemctl within the time limit, or fail."""
    limit = module.params["timeout_s"] + START_S
    command = ["timeout", "-k", "2", str(limit), "systemctl", *words]
    status, out, err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
    if status:
        said = " ".join(f"{err} {out}".split()) or f"ends with {status}"
        shown = " ".join(["systemctl", *words])
        module.fail_json(msg=f"{module.params['host']}: {key}: `{shown}` failed: {said}")


def mount(module: AnsibleModule, free: list[dict[str, Any]]) -> None:
    """Mount what is not mounted, and fail unless it is there then."""
    key = module.params["key"]
    for item in free:
        systemctl(module, f"{key}[{item['path']}]", "start", item["unit"])
    proof = examine(module, client_ready=False)
    absent = [path for path, state in proof.states.items() if state not in THERE]
    if absent or proof.problems:
        lines = [f"{key}[{path}]: systemd has started its unit, and nothing is mounted there" for path in absent]
        message = "\n".join([f"{module.params['host']}: not all is mounted:", *lines, *texts(proof.problems)])
        module.fail_json(msg=message, problems=proof.problems, states=proof.states)


def main() -> None:
    """Run the module."""
    text: dict[str, Any] = {"type": "str", "required": True}
    entry = {
        "type": {**text, "choices": list(STORAGE_TYPES)},
        "src": text,
        "path": text,
        "options": {"type": "list", "elements": "str", "default": []},
        "automount": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "dict", "required": True, "options": entry},
            "packages": {"type": "list", "elements": "str", "default": []},
            "boot_wait_s": {"type": "int", "required": True},
            "timeout_s": {"type": "int", "default": 20},
            "home_base": {"type": "str", "default": ""},
            "host": text,
            "key": {**text, "no_log": False},
        },
        supports_check_mode=True,
    )
    host = module.params["host"]
    has = installed_versions(module, module.params["packages"])
    missing = [name for name in module.params["packages"] if name not in has]
    rewritten: list[str] = []
    diff: list[dict[str, str]] = []
    try:
        found = examine(module, client_ready=not missing)
        notes = refuse(module, found)
        plan = mount_plan(module.params["mounts"], module.params["boot_wait_s"])
        free = [item for item in plan if found.states[item["path"]] == "free"]
        if module.check_mode or not missing:
            if not module.check_mode:
                for item in free:
                    make_directory(module, Path(item["path"]))
            rewritten, diff = write_fstab(module, plan)
            if (rewritten or free) and not module.check_mode:
                # Also where only units are started: a run may have ended between this line and those below.
                systemctl(module, module.params["key"], "daemon-reload")
            if free and not module.check_mode:
                mount(module, free)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{host}: {module.params['key']}: {exc}")
    old = [path for path in rewritten if found.states[path] in THERE]
    if old and not module.check_mode:
        when = "take effect at the next mount: reboot, or restart the unit when nobody uses it"
        notes.append(f"{host}: {', '.join(old)}: the new options {when}")
    module.exit_json(
        changed=bool(diff) or bool(free and not (missing and not module.check_mode)),
        diff=diff,
        states=found.states,
        missing_packages=missing,
        home_mounts=nfs_home_mounts(module.params["mounts"], base) if (base := module.params["home_base"]) else [],
        notes=notes,
    )


if __name__ == "__main__":
    main()
