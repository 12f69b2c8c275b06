"""Compare the results of `node_info` with the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUDO_REMEDY = "enter the correct sudo password with -K (--ask-become-pass), or allow sudo without a password"

_REMEDY_CONNECTION = (
    ("permission denied", "install your key with `busbar ssh bootstrap`, or correct ansible_user and the key"),
    (
        "host key verification",
        "verify the host key and add it to known_hosts; `busbar ssh bootstrap` does both",
    ),
    ("could not resolve", "set ansible_host to the host's address"),
)
_REMEDY = {
    "connection": "power the host on and check ansible_host and the network; to continue without it: "
    "-e preflight_allow_unreachable=true",
    "become": SUDO_REMEDY,
    "python": "install python3 on the host, or set ansible_python_interpreter",
    "module": "run the command again with -vvv to see the answer of the host",
    "shell": "set a login shell for ansible_user on the host (usermod -s /bin/bash), or change ansible_user",
}
_WHAT = {
    "connection": "cannot be reached",
    "become": "sudo fails",
    "python": "has no usable Python",
    "module": "cannot be examined",
    "shell": "has no login shell",
}


def contact_problem(host: str, answer: Mapping[str, Any]) -> Problem:
    """Return the problem for a host that did not answer.

    Args:
        host: name of the host.
        answer: result of `node_info` with `failure` and `message`.
    """
    failure, message = answer.get("failure") or "module", str(answer.get("message", ""))
    remedy = _REMEDY.get(failure, _REMEDY["module"])
    if failure == "connection":
        found = (text for sign, text in _REMEDY_CONNECTION if sign in message.lower())
        remedy = next(found, remedy)
    key = {"connection": "ansible_host", "become": "become", "shell": "ansible_user"}.get(failure, "python")
    return make_problem([host], key, f"{_WHAT.get(failure, _WHAT['module'])}: {message}", remedy)


def node_problems(
    host: str, answer: Mapping[str, Any], hardware: Mapping[str, Any] | None, limits: Mapping[str, Any]
) -> list[Problem]:
    """Return the problems with one host.

    Args:
        host: name of the host.
        answer: result of `node_info`.
        hardware: hardware profile of the host, or None.
        limits: `systems` (id to list of versions or major versions), `architectures`, `clock_s` (largest clock error in
            seconds), `free_mb` (path to minimum free MiB).
    """
    if not answer.get("reached"):
        return [contact_problem(host, answer)]
    node = answer["node"]
    return [
        *_become(host, node),
        *_system(host, node, limits),
        *_clock(host, float(answer.get("clock_offset_s", 0)), float(limits["clock_s"])),
        *_disk(host, node["free_mb"], limits["free_mb"]),
        *_read_only(host, node.get("read_only") or []),
        *(_hardware(host, node, hardware) if hardware else []),
    ]


def name_problems(host: str, node: Mapping[str, Any], wanted: str) -> list[Problem]:
    """Return a problem if a container has the wrong host name, which cannot be changed from inside."""
    if not node.get("hostname_fixed") or node["hostname"] == wanted:
        return []
    problem = f"the container sets the host name {node['hostname']} (/etc/hostname is a mount; expected {wanted})"
    return [make_problem([host], "hosts_name", problem, f"start the container with --hostname {wanted}")]


def _become(host: str, node: Mapping[str, Any]) -> list[Problem]:
    """Return a problem if the node was not examined as root."""
    if node["euid"] == 0:
        return []
    problem = f"commands run as UID {node['euid']} (expected root)"
    return [make_problem([host], "become", problem, "remove ansible_become: false and ansible_become_user of the host")]


def _system(host: str, node: Mapping[str, Any], limits: Mapping[str, Any]) -> list[Problem]:
    """Return problems for an unsupported operating system or processor."""
    system, systems = node["os"], limits["systems"]
    problems = []
    versions = [str(version) for version in systems.get(system["id"], ())]
    if not {system["version"], system["major"]} & set(versions):
        known = ", ".join(f"{name} {'/'.join(map(str, each))}" for name, each in systems.items())
        name = system["name"] or system["id"] or "unknown system"
        problem = f"{name} is not supported"
        problems.append(make_problem([host], "operating system", problem, f"install one of: {known}"))
    if node["architecture"] not in limits["architectures"]:
        problem = f"architecture {node['architecture']} is not supported"
        remedy = f"use one of: {', '.join(limits['architectures'])}"
        problems.append(make_problem([host], "architecture", problem, remedy))
    return problems


def _clock(host: str, offset: float, limit: float) -> list[Problem]:
    """Return a problem if the clock offset exceeds the limit; it is rounded, so that equal problems can be grouped."""
    if abs(offset) <= limit:
        return []
    side = "ahead of" if offset > 0 else "behind"
    problem = f"clock is {_duration(abs(offset))} {side} the clock of this host"
    return [
        make_problem([host], "clock", problem, "correct the clock of the host or of this host: date -s, or run chrony")
    ]


def _disk(host: str, free: Mapping[str, int], needed: Mapping[str, int]) -> list[Problem]:
    """Return a problem for each path with too little free space, once per file system."""
    short = [path for path, least in needed.items() if path in free and free[path] < int(least)]
    return [
        make_problem(
            [host], f"disk {path}", f"{free[path]} MiB free, {needed[path]} MiB required", f"free space below {path}"
        )
        for path in short
        if not any(
            path.startswith(f"{other.rstrip('/')}/") and free[path] == free[other] for other in short if other != path
        )
    ]


def _read_only(host: str, paths: Sequence[str]) -> list[Problem]:
    """Return a problem for each path on a read-only file system; after errors, the kernel remounts disks read-only."""
    remedy = "find the cause (dmesg; findmnt -no OPTIONS), repair the disk, then remount it read-write or reboot"
    return [make_problem([host], f"disk {path}", "is mounted read-only", remedy) for path in paths]


def _hardware(host: str, node: Mapping[str, Any], hardware: Mapping[str, Any]) -> list[Problem]:
    """Return problems if the profile declares more CPUs or memory than the node has, because Slurm would drain it."""
    declared = _product(hardware, ("sockets", "cores_per_socket", "threads_per_core"))
    problems = []
    if declared > node["cpus"]:
        problem = f"{declared} CPUs declared, but the host has {_shape(node)}"
        remedy = "correct sockets, cores_per_socket and threads_per_core, or the hardware of the host"
        problems.append(make_problem([host], "hardware", problem, remedy))
    memory = int(hardware.get("memory_mb") or 0)
    if memory > node["memory_mb"]:
        problem = f"memory_mb {memory} declared, but the host has {node['memory_mb']}"
        remedy = "lower memory_mb of the hardware, or correct the hardware of the host"
        problems.append(make_problem([host], "hardware", problem, remedy))
    return problems


def _product(values: Mapping[str, Any], names: Sequence[str]) -> int:
    """Return the product of the named entries; missing ones count as 1."""
    result = 1
    for name in names:
        result *= int(values.get(name) or 1)
    return result


def _shape(node: Mapping[str, Any]) -> str:
    """Return the CPU topology as text: '2 (1 sockets x 2 cores x 1 threads)'."""
    return (
        f"{node['cpus']} ({node['sockets']} sockets x {node['cores_per_socket']} cores x "
        f"{node['threads_per_core']} threads)"
    )


def _duration(seconds: float) -> str:
    """Return a duration in the largest suitable unit."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{round(seconds / size)} {name}"
    return f"{round(seconds)} seconds"
