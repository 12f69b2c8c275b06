"""Tests of invalid options of the PXE server."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.pxe_server.checks import check

NODE = {"pxe_server_mac": "52:54:00:AA:00:01", "hosts_address": "10.0.0.11"}
GOOD: dict[str, Any] = {
    "address": "10.0.0.1",
    "content": "/images",
    "dns": ["10.0.0.2"],
    "interface": "eth1",
    "interfaces": ["lo", "eth0", "eth1"],
    "kernel_options": "console=ttyS0",
    "machines": {"gpu1": NODE},
    "missing": [],
    "range": [],
    "unknown": False,
}


def test_server_of_known_machines_is_accepted() -> None:
    assert check(GOOD, {"host": "ctl"}) == []
    assert check(GOOD | {"unknown": True, "range": ["10.0.0.200", "10.0.0.220"]}, {"host": "ctl"}) == []


@pytest.mark.parametrize(
    ("change", "hosts", "key", "says"),
    [
        ({"interface": "eth9"}, ["ctl"], "pxe_server_interface", "interface 'eth9' does not exist"),
        ({"interface": "eth1\nport=53"}, ["ctl"], "pxe_server_interface", "does not exist"),
        ({"address": ""}, ["ctl"], "pxe_server_address", "'' is not an IPv4 address"),
        ({"dns": ["10.0.0.2", "resolver"]}, ["ctl"], "pxe_server_dns", "invalid IPv4 addresses ('resolver')"),
        ({"missing": ["vmlinuz"]}, ["ctl"], "pxe_server_content", "/images lacks vmlinuz"),
        ({"unknown": True}, ["ctl"], "pxe_server_range", "does not consist of a first and a last address"),
        ({"kernel_options": "a\nshell"}, ["ctl"], "pxe_server_kernel_options", "more than one line"),
        ({"machines": {"gpu1": NODE | {"pxe_server_mac": "52:54"}}}, ["gpu1"], "pxe_server_mac", "'52:54' is no"),
        ({"machines": {"gpu1": {"pxe_server_mac": "52:54:00:aa:00:01"}}}, ["gpu1"], "hosts_address", "is not an IPv4"),
    ],
)
def test_impossible_combinations_are_reported(change: dict[str, Any], hosts: list[str], key: str, says: str) -> None:
    (problem,) = check(GOOD | change, {"host": "ctl"})
    assert (problem["hosts"], problem["key"]) == (hosts, key)
    assert says in problem["problem"]
    assert problem["remedy"]


def test_two_machines_with_one_mac_are_reported() -> None:
    other = NODE | {"pxe_server_mac": "52:54:00:aa:00:01", "hosts_address": "10.0.0.12"}
    found = check(GOOD | {"machines": {"gpu1": NODE, "gpu2": other}}, {"host": "ctl"})
    assert [(each["hosts"], each["problem"]) for each in found] == [
        (["gpu1"], "52:54:00:aa:00:01 is also the MAC address of gpu2"),
        (["gpu2"], "52:54:00:aa:00:01 is also the MAC address of gpu1"),
    ]
