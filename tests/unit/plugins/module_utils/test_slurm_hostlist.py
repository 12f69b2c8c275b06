"""Slurm's short form of host lists."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm_hostlist import expand_hosts
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("gpu1", ["gpu1"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[1,08-10]x,login", ["gpu1x", "gpu08x", "gpu09x", "gpu10x", "login"]),
        ("rack[1-2]gpu[3-4]", ["rack1gpu3", "rack1gpu4", "rack2gpu3", "rack2gpu4"]),
    ],
)
def test_expand(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@given(st.sets(st.integers(0, 2000), max_size=40))
def test_expands_what_clustershell_folds(numbers: set[int]) -> None:
    hosts = {f"gpu{number:04}" for number in numbers}
    assert set(expand_hosts(str(NodeSet.fromlist(hosts)))) == hosts
