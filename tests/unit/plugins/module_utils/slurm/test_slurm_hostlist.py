"""Tests of Slurm host list expressions."""

from __future__ import annotations

import tracemalloc

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.hostlist import MOST_HOSTS, expand_hosts
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


def test_largest_supported_host_list_is_expanded() -> None:
    assert len(expand_hosts(f"gpu[00001-{MOST_HOSTS:05}]")) == MOST_HOSTS
    assert len(expand_hosts("rack[1-64]gpu[1-1024]")) == MOST_HOSTS


@pytest.mark.parametrize(
    "text",
    [
        "n[0-199999]",
        "n[1-999999999999999999]",
        f"one,n[1-{MOST_HOSTS}]",
        "a[1-1000]b[1-1000]c[1-1000]d[1-1000]",
        ",".join(f"n{number}[1-60000]" for number in range(2)),
        "n[" + ",".join(["1-65000"] * 2) + "]",
    ],
)
def test_larger_host_list_is_refused_before_expansion(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="host list of more than 65536 names"):
            expand_hosts(text)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_too_long_number_is_kept_as_text() -> None:
    assert expand_hosts(f"n[1-{'9' * 5000}]") == [f"n1-{'9' * 5000}"]
    assert expand_hosts("n[9-1]") == []


@given(st.sets(st.integers(0, 2000), max_size=40))
def test_expands_what_clustershell_folds(numbers: set[int]) -> None:
    hosts = {f"gpu{number:04}" for number in numbers}
    assert set(expand_hosts(str(NodeSet.fromlist(hosts)))) == hosts
