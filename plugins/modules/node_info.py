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
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  paths:
    description: Directories whose free disk space is asked for.
    type: list
    elements: str
    default: [/]
  names:
    description: Names of users and groups to look for.
    type: list
    elements: str
    default: []
  numbers:
    description: Numbers of users and groups to look for.
    type: list
    elements: int
    default: []
  reboot:
    description: Whether to find out why the node must reboot (RV(reboot)).
    type: bool
    default: false
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
    names: [alice]
    numbers: [2001]
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
reboot:
  description:
    - Why the node must reboot, empty if it need not. A kernel is newer than the running one, C(/run/reboot-required) of
      Debian and Ubuntu exists, or C(needs-restarting -r) reports it.
  type: list
  elements: str
  returned: when O(reboot)
node:
  description: What was found.
  type: dict
  returned: when reached
  contains:
    os: {description: "C(id), C(version), C(major), C(name).", type: dict}
    architecture: {description: As C(uname -m) says., type: str}
    python: {description: Version of the interpreter., type: str}
    hostname: {description: The name the node has now., type: str}
    hostname_fixed: {description: "Whether C(/etc/hostname) is a mount, so that the name cannot be set.", type: bool}
    euid: {description: Effective user number; 0 is root., type: int}
    epoch: {description: Seconds since 1970., type: float}
    sockets: {description: Sockets., type: int}
    cores_per_socket: {description: Cores of a socket., type: int}
    threads_per_core: {description: Threads of a core., type: int}
    cpus: {description: Processors on line., type: int}
    memory_mb: {description: Memory in MiB., type: int}
    free_mb: {description: Free disk in MiB for each path., type: dict}
    read_only: {description: The paths that are on a file system which is mounted read-only., type: list}
    users: {description: Number of each user that was asked for., type: dict}
    groups: {description: Number of each group., type: dict}
    programs: {description: Programs of containers that are there., type: list}
    kernel: {description: As C(uname -r) says., type: str}
    kernels: {description: Releases of the kernels that are installed., type: list}
    versions:
      description:
        - Versions of C(driver), C(container_toolkit), C(cuda), C(dcgm), C(dcgm_exporter), C(slurm) and C(munge), as far
          as installed.
      type: dict
"""

import os
import platform
import shutil
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.host_accounts import known_groups, known_users
from ..module_utils.common.kernels import installed_kernels, newer_kernel
from ..module_utils.common.node_info import (
    parse_cpu_list,
    parse_cpuinfo,
    parse_memory_mb,
    parse_os_release,
    topology,
)
from ..module_utils.common.software_versions import versions

CPUS = Path("/sys/devices/system/cpu")
# Of containers; preflight asks whether what is to run in them can.
PROGRAMS = ("enroot", "nvidia-container-cli")
WHERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MEBIBYTE = 1 << 20
REBOOT_REQUIRED = Path("/run/reboot-required")


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


def file_system(path: str) -> os.statvfs_result:
    """Return the figures of the file system at a path, or at its nearest parent that exists."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    return os.statvfs(place)


def free_mb(path: str) -> int:
    """Return the free disk in MiB."""
    status = file_system(path)
    return status.f_bavail * status.f_frsize // MEBIBYTE


def node_info(paths: list[str], names: list[str], numbers: list[int]) -> dict[str, object]:
    """Return what the module's documentation promises as `node`.

    Raises:
        ValueError: when /proc has not what it should.
        OSError: when a file system cannot be asked.
    """
    mounts = read(Path("/proc/self/mountinfo"))
    return {
        "os": parse_os_release(read(Path("/etc/os-release")) or read(Path("/usr/lib/os-release"))),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "hostname": platform.node(),
        "hostname_fixed": any(line.split()[4:5] == ["/etc/hostname"] for line in mounts.splitlines()),
        "euid": os.geteuid(),
        "memory_mb": parse_memory_mb(read(Path("/proc/meminfo"))),
        "free_mb": {path: free_mb(path) for path in paths},
        "read_only": [path for path in paths if file_system(path).f_flag & os.ST_RDONLY],
        "users": {name: entry.pw_uid for name, entry in known_users(names, numbers).items()},
        "groups": {name: entry.gr_gid for name, entry in known_groups(names, numbers).items()},
        "programs": [program for program in PROGRAMS if shutil.which(program, path=WHERE)],
        "kernel": platform.release(),
        "kernels": installed_kernels(),
        "versions": versions(),
        **topology(processors()),
        "epoch": time.time(),
    }


def reboot_reasons(module: AnsibleModule) -> list[str]:
    """Return why the node must reboot."""
    running = platform.release()
    newer = newer_kernel(running, installed_kernels())
    found = [f"the kernel {running} runs, {newer} is installed"] if newer else []
    if REBOOT_REQUIRED.exists():
        names = sorted(set(read(REBOOT_REQUIRED.with_suffix(".pkgs")).split()))
        found.append(f"{REBOOT_REQUIRED} exists{' for ' + ', '.join(names) if names else ''}")
    program = module.get_bin_path("needs-restarting")
    # dnf-utils: "exit code 1 if reboot required".
    if program and module.run_command([program, "-r"], environ_update={"LC_ALL": "C.UTF-8"})[0] == 1:
        found.append("needs-restarting -r reports it")
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "default": ["/"]},
            "names": {"type": "list", "elements": "str", "default": []},
            "numbers": {"type": "list", "elements": "int", "default": []},
            "reboot": {"type": "bool", "default": False},
            "leave_out_unreachable": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        node = node_info(module.params["paths"], module.params["names"], module.params["numbers"])
    except (OSError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    more = {"reboot": reboot_reasons(module)} if module.params["reboot"] else {}
    module.exit_json(changed=False, reached=True, failure="", message="", node=node, **more)


if __name__ == "__main__":
    main()
