"""Tests of kernels, packages and versions read from a node."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.node_info import (
    parse_cpu_list,
    parse_cpuinfo,
    parse_memory_mb,
    parse_os_release,
    topology,
)

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nNAME="Debian GNU/Linux"\nVERSION_ID="13"\nID=debian\n'
ROCKY = 'NAME="Rocky Linux"\nVERSION_ID="9.4"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEBIAN, {"id": "debian", "version": "13", "major": "13", "name": "Debian GNU/Linux 13 (trixie)"}),
        (ROCKY, {"id": "rocky", "version": "9.4", "major": "9", "name": "Rocky Linux"}),
        ("ID=Arch\n# no version\n", {"id": "arch", "version": "", "major": "", "name": ""}),
        ("", {"id": "", "version": "", "major": "", "name": ""}),
    ],
)
def test_os_release(text: str, expected: dict[str, str]) -> None:
    assert parse_os_release(text) == expected


def test_memory_is_rounded_down() -> None:
    assert parse_memory_mb("MemTotal:       24683919 kB\nMemFree: 1 kB\n") == 24105


def test_missing_memory_total_is_an_error() -> None:
    with pytest.raises(ValueError, match="MemTotal"):
        parse_memory_mb("MemFree: 1 kB\n")


@pytest.mark.parametrize(("text", "expected"), [("0-2,8\n", [0, 1, 2, 8]), ("0", [0]), ("", []), ("4,6-7", [4, 6, 7])])
def test_cpu_list(text: str, expected: list[int]) -> None:
    assert parse_cpu_list(text) == expected


X86 = "\n\n".join(
    f"processor\t: {number}\nphysical id\t: {number // 4}\ncore id\t\t: {number % 4 // 2}\nmodel name : x"
    for number in range(8)
)
ARM = "\n\n".join(f"processor\t: {number}\nBogoMIPS\t: 50.00" for number in range(4))


@pytest.mark.parametrize(
    ("processors", "expected"),
    [
        (parse_cpuinfo(X86), (2, 2, 2, 8)),
        (parse_cpuinfo(ARM), (1, 4, 1, 4)),
        ([("0", "0,4"), ("0", "1,5"), ("0", "0,4"), ("0", "1,5")], (1, 2, 2, 4)),
        ([("0", "0"), ("1", "1"), ("1", "2")], (2, 1, 1, 3)),
    ],
)
def test_topology(processors: list[tuple[str, str]], expected: tuple[int, int, int, int]) -> None:
    found = topology(processors)
    assert (found["sockets"], found["cores_per_socket"], found["threads_per_core"], found["cpus"]) == expected


def test_topology_needs_a_processor() -> None:
    with pytest.raises(ValueError, match="no processor"):
        topology([])
