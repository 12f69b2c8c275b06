"""Tests of comparing nodes with the inventory."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.nodes import name_problems, node_problems

LIMITS = {
    "systems": {"debian": ["12", "13"], "ubuntu": ["22.04"]},
    "architectures": ["x86_64"],
    "clock_s": 60,
    "free_mb": {"/": 2048, "/var": 2048, "/var/log/slurm": 100},
}
HARDWARE = {"sockets": 1, "cores_per_socket": 2, "threads_per_core": 1, "memory_mb": 2048}
NODE = {
    "os": {"id": "debian", "version": "13", "major": "13", "name": "Debian 13"},
    "architecture": "x86_64",
    "euid": 0,
    "sockets": 1,
    "cores_per_socket": 2,
    "threads_per_core": 1,
    "cpus": 2,
    "memory_mb": 4096,
    "free_mb": {"/": 9000},
}


def answer(offset: float = 0.0, **node: object) -> dict[str, Any]:
    return {"reached": True, "clock_offset_s": offset, "node": {**NODE, **node}}


def system(name: str, version: str) -> dict[str, str]:
    return {"id": name, "version": version, "major": version.partition(".")[0], "name": ""}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (answer(), []),
        (answer(euid=1000), [("become", "commands run as UID 1000 (expected root)")]),
        (answer(os=system("debian", "11")), [("operating system", "debian is not supported")]),
        (answer(os=system("ubuntu", "22.04")), []),
        (answer(os=system("ubuntu", "22.10")), [("operating system", "ubuntu is not supported")]),
        (answer(os=system("", "")), [("operating system", "unknown system is not supported")]),
        (answer(architecture="riscv64"), [("architecture", "architecture riscv64 is not supported")]),
        (answer(59.0), []),
        (answer(7300.0), [("clock", "clock is 2 hours ahead of the clock of this host")]),
        (answer(-61.0), [("clock", "clock is 61 seconds behind the clock of this host")]),
        (answer(free_mb={"/": 100}), [("disk /", "100 MiB free, 2048 MiB required")]),
        (
            answer(free_mb={"/": 9000, "/var": 99, "/var/log/slurm": 99}),
            [("disk /var", "99 MiB free, 2048 MiB required")],
        ),
        (
            answer(free_mb={"/": 9000, "/var": 5, "/var/log/slurm": 0}),
            [("disk /var", "5 MiB free, 2048 MiB required"), ("disk /var/log/slurm", "0 MiB free, 100 MiB required")],
        ),
        (answer(read_only=["/"]), [("disk /", "is mounted read-only")]),
        (answer(cpus=1), [("hardware", "2 CPUs declared, but the host has 1 (1 sockets x 2 cores x 1 threads)")]),
        (answer(cpus=64), []),
        (answer(memory_mb=2047), [("hardware", "memory_mb 2048 declared, but the host has 2047")]),
        (
            {"reached": False, "failure": "connection", "message": "Connection refused"},
            [("ansible_host", "cannot be reached: Connection refused")],
        ),
        (
            {"reached": False, "failure": "become", "message": "Incorrect sudo password"},
            [("become", "sudo fails: Incorrect sudo password")],
        ),
        (
            {"reached": False, "failure": "shell", "message": "This account is currently not available"},
            [("ansible_user", "has no login shell: This account is currently not available")],
        ),
        ({}, [("python", "cannot be examined: ")]),
    ],
)
def test_problems(found: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    problems = node_problems("gpu1", found, HARDWARE, LIMITS)
    assert [(problem["key"], problem["problem"]) for problem in problems] == expected
    assert all(problem["hosts"] == ["gpu1"] and problem["remedy"] for problem in problems)


def test_host_without_hardware_can_be_small() -> None:
    assert node_problems("ctl", answer(cpus=1, memory_mb=1), None, LIMITS) == []


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Permission denied (publickey)", "busbar ssh bootstrap"),
        ("Host key verification failed", "known_hosts"),
        ("ssh: Could not resolve hostname gpu9", "ansible_host"),
        ("Connection timed out", "preflight_allow_unreachable"),
    ],
)
def test_remedy_of_a_connection_failure(message: str, remedy: str) -> None:
    problems = node_problems("gpu1", {"reached": False, "failure": "connection", "message": message}, None, LIMITS)
    assert remedy in problems[0]["remedy"]


@pytest.mark.parametrize(
    ("node", "wanted", "refused"),
    [
        ({"hostname": "gpu1", "hostname_fixed": True}, "n01", True),
        ({"hostname": "n01", "hostname_fixed": True}, "n01", False),
        ({"hostname": "gpu1", "hostname_fixed": False}, "n01", False),
        ({"hostname": "gpu1"}, "n01", False),
    ],
)
def test_name_of_a_container_cannot_be_changed(node: dict[str, Any], wanted: str, *, refused: bool) -> None:
    found = name_problems("n01", {**NODE, **node}, wanted)
    assert [(problem["hosts"], problem["key"]) for problem in found] == ([(["n01"], "hosts_name")] if refused else [])
    assert all("--hostname n01" in problem["remedy"] and "gpu1" in problem["problem"] for problem in found)
