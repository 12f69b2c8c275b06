"""Module that reports the actual hardware and software of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
author: busbar contributors (!UNKNOWN)
short_description: Read the hardware and the software of a node
description:
  - Returns all properties that a preflight compares with the inventory.
  - Counts processors as Slurm does, regardless of the CPU affinity and cgroup limits of the calling process.
  - Run by an action plugin of the same name. An unreachable node or a failed privilege escalation is a result
    (RV(reached), RV(message)) instead of a failure, so that one play can report all nodes together.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  paths:
    description: Directories whose free disk space is returned.
    type: list
    elements: str
    default: [/]
  names:
    description: Names of users and groups whose entries are returned.
    type: list
    elements: str
    default: []
  numbers:
    description: UIDs and GIDs whose entries are returned.
    type: list
    elements: int
    default: []
  reboot:
    description: Whether to check if the node must reboot (RV(reboot)).
    type: bool
    default: false
  devices:
    description: Whether to read GPUs, NICs and their links (RV(devices)).
    type: bool
    default: false
  machine:
    description: Whether to read serial numbers and the history of the health check (RV(record)).
    type: bool
    default: false
  leave_out_unreachable:
    description:
      - Whether an unreachable node also counts as unreachable for Ansible, so that the run continues without it.
      - Read by the action plugin.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read the hardware of the node
  busbar.cluster.node_info:
    paths: [/, /var]
    names: [alice]
    numbers: [2001]
  register: node
"""

RETURN = r"""
reached:
  description: Whether the node answered and privilege escalation worked.
  type: bool
  returned: always
failure:
  description: The failed step, V(connection), V(become), V(python) or V(module). Empty if none failed.
  type: str
  returned: always
message:
  description: Error message of the failed step. Empty if none failed.
  type: str
  returned: always
clock_offset_s:
  description: Minimum offset of the node's clock from this host's clock, in seconds. Negative if it is behind.
  type: float
  returned: when reached
devices:
  description:
    - GPUs and NICs according to C(nvidia-smi -q -x) and C(nvidia-smi nvlink -s), or /proc/driver/nvidia and the PCI bus
      if these fail.
    - C(source) of the GPUs (V(nvidia-smi), V(proc), V(pci)), C(smi_state), C(driver_version), C(cuda_version),
      C(attached_gpus), C(gpu_count), C(gpus) as printed by C(busbar gpu parse), C(gpu_places), C(pci_gpus),
      C(rdma_ports), C(network_interfaces), C(pci_nics), C(fabric_manager) and C(errors).
    - A host without GPU or driver is not an error. Unknown values are null.
  type: dict
  returned: when O(devices)
record:
  description: Identity and history of the machine, with C(parts), C(versions), C(booted), C(host_key), C(history) of
    the health check and C(problems), the read errors by source.
  returned: when O(machine)
  type: dict
reboot:
  description:
    - Reasons for a reboot, empty if none is needed. A newer kernel than the running one is installed,
      C(/run/reboot-required) (Debian, Ubuntu) exists, or C(needs-restarting -r) reports it.
  type: list
  elements: str
  returned: when O(reboot)
node:
  description: Properties of the node as returned by C(node_info()), and C(began) and C(epoch), the time on the node at
    the start and the end in seconds since 1970. Sizes are in MiB, C(users) and C(groups) are numbers by name.
  type: dict
  returned: when reached
"""

import os
import platform
import shutil
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.accounts import known_groups, known_users
from ..module_utils.common.kernels import installed_kernels, newer_kernel
from ..module_utils.common.node_info import (
    parse_cpu_list,
    parse_cpuinfo,
    parse_memory_mb,
    parse_os_release,
    topology,
)
from ..module_utils.common.software_versions import versions
from ..module_utils.hardware.gpu_facts import find_smi, pci_devices, read_gpus
from ..module_utils.hardware.gpu_sockets import gpu_places
from ..module_utils.hardware.network_facts import network_interfaces, rdma_ports
from ..module_utils.health.machine_record import machine_record

CPUS = Path("/sys/devices/system/cpu")
# Container programs; preflight checks whether they can run the declared containers.
PROGRAMS = ("enroot", "nvidia-container-cli")
WHERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MEBIBYTE = 1 << 20
REBOOT_REQUIRED = Path("/run/reboot-required")
# nv-fabricmanager, truncated by the kernel.
FABRIC_MANAGER = "nv-fabricmanage"
# Timeout of each nvidia-smi call; a hanging process is abandoned.
SMI_TIMEOUT_S = 30


def read(path: Path) -> str:
    """Return the text of a file, or '' if it cannot be read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def processors() -> list[tuple[str, str]]:
    """Return (socket, core) of each online processor, from /sys or else from /proc/cpuinfo."""
    found = []
    for number in parse_cpu_list(read(CPUS / "online")):
        place = CPUS / f"cpu{number}" / "topology"
        # Older kernels use the second name.
        core = read(place / "core_cpus_list") or read(place / "thread_siblings_list")
        socket = read(place / "physical_package_id")
        if not (core and socket):
            return parse_cpuinfo(read(Path("/proc/cpuinfo")))
        found.append((socket.strip(), core.strip()))
    return found or parse_cpuinfo(read(Path("/proc/cpuinfo")))


def file_system(path: str) -> os.statvfs_result:
    """Return the statistics of the file system at a path, or at its nearest existing parent."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    return os.statvfs(place)


def free_mb(path: str) -> int:
    """Return the free disk space at a path in MiB."""
    status = file_system(path)
    return status.f_bavail * status.f_frsize // MEBIBYTE


def node_info(paths: list[str], names: list[str], numbers: list[int]) -> dict[str, object]:
    """Return the properties of the node.

    Raises:
        ValueError: a file in /proc lacks an expected value.
        OSError: a file system cannot be queried.
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
    }


def reboot_reasons(module: AnsibleModule) -> list[str]:
    """Return why the node must reboot."""
    running = platform.release()
    newer = newer_kernel(running, installed_kernels())
    found = [f"kernel {running} is running, but {newer} is installed"] if newer else []
    if REBOOT_REQUIRED.exists():
        names = sorted(set(read(REBOOT_REQUIRED.with_suffix(".pkgs")).split()))
        found.append(f"{REBOOT_REQUIRED} exists{' for ' + ', '.join(names) if names else ''}")
    program = module.get_bin_path("needs-restarting")
    # dnf-utils: "exit code 1 if reboot required".
    if program and module.run_command([program, "-r"], environ_update={"LC_ALL": "C.UTF-8"})[0] == 1:
        found.append("needs-restarting -r reports it")
    return found


def devices(root: Path, program: str | None, timeout_s: float) -> dict[str, Any]:
    """Return the GPUs and NICs of a host."""
    bus = pci_devices(root)
    return {
        **read_gpus(root, bus["gpu"], program, timeout_s),
        "gpu_places": gpu_places(root, [device["address"] for device in bus["gpu"]]),
        "rdma_ports": rdma_ports(root),
        "network_interfaces": network_interfaces(root),
        "pci_nics": [device["address"] for device in bus["nic"]],
        "fabric_manager": any(read(path).strip() == FABRIC_MANAGER for path in (root / "proc").glob("[0-9]*/comm")),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "default": ["/"]},
            "names": {"type": "list", "elements": "str", "default": []},
            "numbers": {"type": "list", "elements": "int", "default": []},
            "reboot": {"type": "bool", "default": False},
            "devices": {"type": "bool", "default": False},
            "machine": {"type": "bool", "default": False},
            "leave_out_unreachable": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    began = time.time()
    try:
        node = node_info(given["paths"], given["names"], given["numbers"])
    except (OSError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    more: dict[str, Any] = {"reboot": reboot_reasons(module)} if given["reboot"] else {}
    if given["devices"]:
        more["devices"] = devices(Path("/"), find_smi(), SMI_TIMEOUT_S)
    if given["machine"]:
        more["record"] = machine_record()
    node |= {"began": began, "epoch": time.time()}
    module.exit_json(changed=False, reached=True, failure="", message="", node=node, **more)


if __name__ == "__main__":
    main()
