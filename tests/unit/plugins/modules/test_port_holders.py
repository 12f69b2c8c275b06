"""Tests of finding the process that holds a port, with ss output and a real listening process."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.busbar.cluster.plugins.modules import port_holders
from module_run import module_result

ANY = "0.0.0.0"  # noqa: S104 - nothing is bound to it


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", ANY, True),
        ("10.0.0.1", "*", True),
        ("10.0.0.1", "[::]", True),
        (ANY, "10.0.0.1", True),
        ("10.0.0.1", "127.0.0.1", False),
        ("10.0.0.1", "127.0.0.53%lo", False),
        ("::1", ANY, False),
        ("::1", "[::1]", True),
        ("name.without.an.address.invalid", "127.0.0.1", True),
    ],
)
def test_only_overlapping_addresses_conflict(wanted: str, held: str, *, expected: bool) -> None:
    item = {"address": wanted, "port": 80, "unit": "x", "key": "x_port"}
    found = port_holders.port_problems(item, "gpu1", f"LISTEN 0 5 {held}:80 0.0.0.0:*\n")
    assert bool(found) is expected
    assert all("not visible" in each["problem"] for each in found)


def test_daemon_may_hold_its_own_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_holders, "holder", {"7": ("nginx", "nginx: master"), "8": ("", "")}.__getitem__)
    sockets = 'LISTEN 0 5 *:80 *:* users:(("nginx",pid=8,fd=5),("nginx",pid=7,fd=5))\n'
    item = {"address": "::", "port": 80, "unit": "nginx", "key": "x_port"}
    assert port_holders.port_problems(item, "gpu1", sockets) == []
    assert port_holders.port_problems({**item, "unit": "apache2"}, "gpu1", sockets)


def run(port: int, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    ports = [{"address": "127.0.0.1", "port": port, "unit": "x", "key": "x_port"}]
    return module_result(port_holders, capsys, ports=ports, host="gpu1")


def test_port_held_by_another_process_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = run(port, capsys)
    assert (result["failed"], result["busbar_refused"]) == (True, True)
    assert f"gpu1: x_port: 127.0.0.1 port {port} is held by" in result["msg"]
    assert f"(pid {os.getpid()}" in result["msg"]
    assert "remedy: " in result["msg"]
    assert run(port, capsys)["problems"] == []


def test_missing_ss_reports_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda *_, **__: None)
    result = run(9090, capsys)
    assert {key: result.get(key) for key in ("changed", "problems")} == {"changed": False, "problems": []}
