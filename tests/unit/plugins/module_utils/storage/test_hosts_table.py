"""Tests of the cluster's names and addresses in /etc/hosts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.hosts_table import (
    END,
    cluster_entries,
    hosts_file,
)

BEGIN = "# BEGIN busbar: the hosts of the cluster"
VARIABLES: dict[str, dict[str, Any]] = {
    "ctl": {"ansible_host": "10.0.0.1"},
    "gpu1": {"ansible_host": "10.0.0.2", "hosts_aliases": ["node1"]},
    "gpu2": {"ansible_host": "192.0.2.9", "hosts_address": "10.0.0.3"},
    "dns": {},
    "dns2": {"ansible_host": "dns2.example.org"},
    "10.0.0.9": {},
}
BLOCK = f"{BEGIN}\n10.0.0.1 ctl\n10.0.0.2 gpu1 node1\n{END}\n"


def test_entries() -> None:
    entries = cluster_entries(VARIABLES, VARIABLES)
    assert [(entry["name"], entry["address"]) for entry in entries] == [
        ("ctl", "10.0.0.1"),
        ("gpu1", "10.0.0.2"),
        ("gpu2", "10.0.0.3"),
        ("dns", ""),
        ("dns2", ""),
        ("10.0.0.9", "10.0.0.9"),
    ]


def test_domain_comes_first() -> None:
    (entry,) = cluster_entries(["gpu1"], VARIABLES, "cluster.example")
    assert entry["names"] == ["gpu1.cluster.example", "gpu1", "node1"]


@pytest.mark.parametrize(
    ("variables", "port", "known_as"),
    [
        ({"ansible_host": "10.0.0.2"}, 22, ["n01", "10.0.0.2"]),
        ({"ansible_host": "10.0.0.2", "ansible_port": "22"}, 22, ["n01", "10.0.0.2"]),
        (
            {"ansible_host": "10.0.0.2", "ansible_port": 2222},
            2222,
            ["[n01]:2222", "[10.0.0.2]:2222"],
        ),
        (
            {"ansible_host": "127.0.0.1", "ansible_port": 2201, "hosts_address": "10.0.0.2", "ssh_port": 22},
            22,
            ["n01", "127.0.0.1", "10.0.0.2", "[n01]:2201", "[127.0.0.1]:2201", "[10.0.0.2]:2201"],
        ),
    ],
    ids=["default", "22 by name", "another", "forwarded"],
)
def test_ports_of_ssh(variables: dict[str, Any], port: int, known_as: list[str]) -> None:
    (entry,) = cluster_entries(["n01"], {"n01": variables})
    assert (entry["port"], entry["known_as"]) == (port, known_as)


def test_duplicate_address_is_refused() -> None:
    variables = {"a": {"ansible_host": "10.0.0.1"}, "b": {"ansible_host": "10.0.0.1"}}
    with pytest.raises(ValueError, match=r"a and b have the same address 10\.0\.0\.1"):
        cluster_entries(variables, variables)


@pytest.mark.parametrize("line", ["x y", "10.0.0.1", "10.0.0.1 # name"])
def test_line_without_address_or_name_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"hosts_extra: .* needs an IP address and at least one name"):
        hosts_file("", f"{BEGIN}\n{line}\n{END}\n")


@pytest.mark.parametrize(
    ("current", "kept"),
    [
        ("", ""),
        ("127.0.0.1 localhost\n", "127.0.0.1 localhost\n\n"),
        ("127.0.0.1 localhost\n127.0.1.1 gpu1.example.org gpu1\n", "127.0.0.1 localhost\n\n"),
        ("127.0.0.1 localhost\n127.0.1.1\tdebian\n", "127.0.0.1 localhost\n\n"),
        ("127.0.0.1 localhost gpu1\n", "127.0.0.1 localhost\n\n"),
        ("10.9.9.9 gpu1 # stale\n10.0.0.7 printer\n", "10.0.0.7 printer\n\n"),
        ("10.9.9.9 gpu1 other\n", "10.9.9.9 other\n\n"),
        ("# gpu1 is a comment\n\n::1 ip6-localhost\n", "# gpu1 is a comment\n\n::1 ip6-localhost\n\n"),
        (f"a\n\n{BEGIN}\n10.1.1.1 old\n{END}\n10.0.0.7 printer\n", "a\n\n10.0.0.7 printer\n\n"),
        ("# BEGIN busbar: in other words\n10.1.1.1 old\n# END busbar\n", ""),
    ],
)
def test_file(current: str, kept: str) -> None:
    text = hosts_file(current, BLOCK)
    assert text == kept + BLOCK
    assert hosts_file(text, BLOCK) == text
