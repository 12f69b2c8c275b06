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
devices:
  description:
    - The GPUs and NICs of C(nvidia-smi -q -x) and C(nvidia-smi nvlink -s). Where these do not answer,
      /proc/driver/nvidia and the PCI bus name them.
    - A host without GPU or driver is no failure.
  type: dict
  returned: when O(devices)
  contains:
    source:
      description: Where the GPUs were read, V(nvidia-smi), V(proc) or V(pci).
      type: str
    smi_state:
      description: >-
        V(ok), V(absent), V(failed), V(hung), or V(unusable) when nvidia-smi does not know the options.
      type: str
    driver_version:
      description: Version of the loaded driver.
      type: str
    cuda_version:
      description: Newest CUDA that the driver can run.
      type: str
    attached_gpus:
      description: GPUs that the driver counts.
      type: int
    gpu_count:
      description: GPUs that are listed.
      type: int
    gpus:
      description: The GPUs, as C(busbar gpu parse) prints them; what is not known is null.
      type: list
      elements: dict
    gpu_places:
      description:
        - C(packages) and C(numa_nodes), how many of them have CPUs, and C(gpus), of each address on the PCI bus the
          place of its C(package) and C(numa) among these, null where the kernel does not say.
      type: dict
    pci_gpus:
      description: Addresses of the NVIDIA GPUs on the PCI bus.
      type: list
      elements: str
    rdma_ports:
      description: Ports of RDMA devices with C(device), C(port), C(active), C(state), C(rate_gbps), C(link_layer).
      type: list
      elements: dict
    network_interfaces:
      description: Interfaces with hardware behind them, with C(name), C(up), C(rate_gbps), C(address).
      type: list
      elements: dict
    pci_nics:
      description: Addresses of the network cards on the PCI bus.
      type: list
      elements: str
    fabric_manager:
      description: Whether a fabric manager runs, without which GPUs behind NVSwitches wait for their fabric.
      type: bool
    errors:
      description: What went wrong, one line each.
      type: list
      elements: str
record:
  description: Which machine this is.
  returned: when O(machine)
  type: dict
  contains:
    parts:
      description: >-
        Machine, GPUs and NICs, each with C(kind), C(id), C(serial) and C(name), as reports of a validation have them.
      type: list
    versions: {description: "Kernel, system, driver, CUDA and DCGM, as far as they are known.", type: dict}
    booted: {description: "Seconds since 1970, 0 when not known.", type: int}
    host_key: {description: Public host key; empty when there is none., type: str}
    history: {description: "Entries of the health check, the oldest first.", type: list}
    problems: {description: What could not be read and why., type: dict}
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
    began: {description: "The time on the node at the start, in seconds since 1970.", type: float}
    epoch: {description: The time on the node at the end., type: float}
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
from typing import Any

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
from ..module_utils.hardware.gpu_places import gpu_places
from ..module_utils.hardware.gpu_reading import find_smi, pci_devices, read_gpus
from ..module_utils.hardware.network import network_interfaces, rdma_ports
from ..module_utils.health.machine_record import machine_record

CPUS = Path("/sys/devices/system/cpu")
# Of containers; preflight asks whether what is to run in them can.
PROGRAMS = ("enroot", "nvidia-container-cli")
WHERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MEBIBYTE = 1 << 20
REBOOT_REQUIRED = Path("/run/reboot-required")
# nv-fabricmanager, as the kernel cuts it.
FABRIC_MANAGER = "nv-fabricmanage"
# Of each run of nvidia-smi; one that hangs is left behind.
SMI_TIMEOUT_S = 30


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
