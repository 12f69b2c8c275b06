#!/usr/bin/python
"""Module that tells what a node really is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
author: busbar contributors
short_description: What a node really is, in one go
description:
  - Returns everything that a preflight compares with the inventory.
  - Processors are counted as Slurm counts them; affinity and cgroup limits of the calling process play no part.
  - An action plugin of the same name runs it. A node that cannot be reached, or where the change of user fails, is
    then a result (RV(reached), RV(message)) and no failure, so that one play can tell of all nodes at once.
attributes:
  check_mode:
    support: full
    description: Changes nothing in any mode.
options:
  paths:
    description: Directories whose free disk space is asked for.
    type: list
    elements: str
    default: [/]
  users:
    description: Names and uids to look for, as C({name: uid}); all local users when not given.
    type: dict
  groups:
    description: Names and gids to look for, as C({name: gid}); all local groups when not given.
    type: dict
  leave_out_unreachable:
    description:
      - Whether a node that cannot be reached is unreachable for Ansible too, so that the run goes on without it.
      - Read by the action plugin.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Look at the node
  busbar.cluster.node_info:
    paths: [/, /var]
    users: {alice: 2001}
  register: node
"""

RETURN = r"""
reached:
  description: Whether the node answered and gave the asked-for rights.
  type: bool
  returned: always
failure:
  description: Which step failed, V(connection), V(become), V(python) or V(module); empty when none did.
  type: str
  returned: always
message:
  description: What went wrong; empty when nothing did.
  type: str
  returned: always
clock_offset_s:
  description: How far the node's clock is ahead of this host's at least, in seconds; negative when behind.
  type: float
  returned: when reached
node:
  description: What was found.
  type: dict
  returned: when reached
  contains:
    os: {description: "C(id), C(version), C(major), C(name).", type: dict}
    architecture: {description: As C(uname -m) says., type: str}
    python: {description: Version of the interpreter., type: str}
    hostname: {description: The name the node has now., type: str}
    euid: {description: Effective user number; 0 is root., type: int}
    epoch: {description: Seconds since 1970., type: float}
    sockets: {description: Sockets., type: int}
    cores_per_socket: {description: Cores of a socket., type: int}
    threads_per_core: {description: Threads of a core., type: int}
    cpus: {description: Processors on line., type: int}
    memory_mb: {description: Memory in MiB., type: int}
    free_mb: {description: Free disk in MiB for each path., type: dict}
    users: {description: Number of each user., type: dict}
    groups: {description: Number of each group., type: dict}
"""

import grp
import os
import platform
import pwd
import time
from contextlib import suppress
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.node_info import (  # noqa: TID252 - the collection's name stands in no import
    parse_cpu_list,
    parse_cpuinfo,
    parse_memory_mb,
    parse_os_release,
    select_ids,
    topology,
)

CPUS = Path("/sys/devices/system/cpu")
MEBIBYTE = 1 << 20


def read(path: Path) -> str:
    """Return the text of a file, '' when it cannot be read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def processors() -> list[tuple[str, str]]:
    """Return (socket, core) of each processor on line, from /sys, else from /proc/cpuinfo."""
    found = []
    for number in parse_cpu_list(read(CPUS / "online")):
        place = CPUS / f"cpu{number}" / "topology"
        # The file's second name is that of older kernels.
        core = read(place / "core_cpus_list") or read(place / "thread_siblings_list")
        socket = read(place / "physical_package_id")
        if not (core and socket):
            return parse_cpuinfo(read(Path("/proc/cpuinfo")))
        found.append((socket.strip(), core.strip()))
    return found or parse_cpuinfo(read(Path("/proc/cpuinfo")))


def free_mb(path: str) -> int:
    """Return the free disk in MiB at a path, or at its nearest parent that exists."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize // MEBIBYTE


def known_users(asked: dict[str, int | None] | None) -> dict[str, int]:
    """Return name and uid of local users, and of those asked for, wherever they are kept."""
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    for name, number in (asked or {}).items():
        with suppress(KeyError):
            known[name] = pwd.getpwnam(name).pw_uid
        if number is not None:
            with suppress(KeyError, OverflowError):
                known[pwd.getpwuid(int(number)).pw_name] = int(number)
    return select_ids(known, asked)


def known_groups(asked: dict[str, int | None] | None) -> dict[str, int]:
    """Return name and gid of local groups, and of those asked for, wherever they are kept."""
    known = {entry.gr_name: entry.gr_gid for entry in grp.getgrall()}
    for name, number in (asked or {}).items():
        with suppress(KeyError):
            known[name] = grp.getgrnam(name).gr_gid
        if number is not None:
            with suppress(KeyError, OverflowError):
                known[grp.getgrgid(int(number)).gr_name] = int(number)
    return select_ids(known, asked)


def node_info(
    paths: list[str], users: dict[str, int | None] | None, groups: dict[str, int | None] | None
) -> dict[str, object]:
    """Return what the module's documentation promises as `node`.

    Raises:
        ValueError: when /proc has not what it should.
        OSError: when a file system cannot be asked.
    """
    found = {
        "os": parse_os_release(read(Path("/etc/os-release")) or read(Path("/usr/lib/os-release"))),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "hostname": platform.node(),
        "euid": os.geteuid(),
        "memory_mb": parse_memory_mb(read(Path("/proc/meminfo"))),
        "free_mb": {path: free_mb(path) for path in paths},
        "users": known_users(users),
        "groups": known_groups(groups),
    }
    found.update(topology(processors()))
    found["epoch"] = time.time()
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "default": ["/"]},
            "users": {"type": "dict"},
            "groups": {"type": "dict"},
            "leave_out_unreachable": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        node = node_info(module.params["paths"], module.params["users"], module.params["groups"])
    except (OSError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, reached=True, failure="", message="", node=node)


if __name__ == "__main__":
    main()
