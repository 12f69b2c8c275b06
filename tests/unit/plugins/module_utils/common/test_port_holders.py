"""Who holds a port: the kernel's own tables, and a process that really listens."""

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.port_holders import (
    find_holders,
    listeners,
    overlaps,
    port_problems,
    unit_of,
)

ANY = "0.0.0.0"  # noqa: S104 - nothing is bound to it
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0A00000A:0016 0B00000A:C000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1
"""
TCP6 = """  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 99 1 0
   1: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 98 1 0
"""


def test_what_listens_is_read_from_the_kernels_tables() -> None:
    assert listeners(TCP) == [("127.0.0.1", 9090, "4711")]
    assert [(each.address, each.port) for each in listeners(TCP6)] == [("::", 22), ("2001:db8::1", 80)]


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", ANY, True),
        ("10.0.0.1", "::", True),
        (ANY, "10.0.0.1", True),
        ("10.0.0.1", "127.0.0.1", False),
        ("::1", ANY, False),
        ("::1", "::", True),
    ],
)
def test_which_addresses_are_in_each_others_way(wanted: str, held: str, *, expected: bool) -> None:
    assert overlaps(wanted, held) is expected


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/prometheus.service\n", "prometheus.service"),
        ("0::/machine.slice/a.service/system.slice/b.service", "b.service"),
        ("0::/user.slice/user-0.slice/session-1.scope", ""),
    ],
)
def test_the_unit_of_a_process(cgroup: str, unit: str) -> None:
    assert unit_of(cgroup) == unit


def test_a_process_that_listens_is_found() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        (holder,) = find_holders("127.0.0.1", port)
        assert holder.pid == os.getpid()
        assert "py" in holder.name
        assert find_holders("127.0.0.2", port) == []
        assert [each.pid for each in find_holders("name.that.leads.nowhere.invalid", port)] == [os.getpid()]
    assert find_holders("127.0.0.1", port) == []


def test_a_port_that_another_process_holds_is_a_problem_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        item = {"address": "127.0.0.1", "port": port, "unit": "x", "key": "x_port"}
        (problem,) = port_problems(item, "gpu1")
    assert (problem["hosts"], problem["key"]) == (["gpu1"], "x_port")
    assert f"port {port} is held by" in problem["problem"]
    assert f"pid {os.getpid()}" in problem["problem"]
    assert port_problems(item, "gpu1") == []
