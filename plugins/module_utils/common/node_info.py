"""Parse information about a node from the contents of files in /proc, /sys and /etc."""

from __future__ import annotations

import re

__all__ = ["parse_cpu_list", "parse_cpuinfo", "parse_memory_mb", "parse_os_release", "topology"]

_ASSIGNMENT = re.compile(r"^([A-Z][A-Z0-9_]*)=(.*)$")


def parse_os_release(text: str) -> dict[str, str]:
    """Return `id`, `version`, `major` and `name` from the text of /etc/os-release; missing values are ''."""
    values = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.match(line.strip())
        if match:
            values[match.group(1)] = match.group(2).strip().strip("\"'")
    version = values.get("VERSION_ID", "")
    return {
        "id": values.get("ID", "").lower(),
        "version": version,
        "major": version.split(".", 1)[0],
        "name": values.get("PRETTY_NAME", "") or values.get("NAME", ""),
    }


def parse_memory_mb(text: str) -> int:
    """Return the memory in MiB, rounded down, from the text of /proc/meminfo.

    Raises:
        ValueError: the text has no MemTotal.
    """
    match = re.search(r"^MemTotal:\s*(\d+)\s*kB", text, re.MULTILINE)
    if not match:
        message = "/proc/meminfo has no MemTotal"
        raise ValueError(message)
    return int(match.group(1)) // 1024


def parse_cpu_list(text: str) -> list[int]:
    """Return the numbers in a kernel list: '0-2,8' gives [0, 1, 2, 8].

    Raises:
        ValueError: a part is neither a number nor a range.
    """
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def parse_cpuinfo(text: str) -> list[tuple[str, str]]:
    """Return (socket, core) of each processor in the text of /proc/cpuinfo.

    A processor without a core id, as on Arm, counts as one core; one without a socket id is in socket 0.
    """
    found = []
    for block in re.split(r"\n\s*\n", text):
        values = dict(re.findall(r"^([a-z ]+?)\s*: (.*)$", block, re.MULTILINE))
        if "processor" in values:
            socket = values.get("physical id", "0")
            core = values["core id"] if "core id" in values else "cpu" + values["processor"]
            found.append((socket, socket + ":" + core))
    return found


def topology(processors: list[tuple[str, str]]) -> dict[str, int]:
    """Return `sockets`, `cores_per_socket`, `threads_per_core` and `cpus` as Slurm counts them.

    Args:
        processors: socket and core of each online processor; core names are unique in the machine. CPU affinity and
            cgroups are ignored.

    Raises:
        ValueError: the list is empty.
    """
    if not processors:
        message = "no processor found in /sys and /proc/cpuinfo"
        raise ValueError(message)
    sockets = len({socket for socket, _ in processors})
    cores = len(set(processors))
    return {
        "sockets": sockets,
        "cores_per_socket": max(1, cores // sockets),
        "threads_per_core": max(1, len(processors) // cores),
        "cpus": len(processors),
    }
