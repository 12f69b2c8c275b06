"""Exports: who may mount, and what the file says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.nfs_exports import (
    exports_file,
    fold_clients,
    merge_options,
    missing_exports,
    shown_exports,
)

# `exportfs -v` and `exportfs -s` of nfs-utils 2.6.2, Debian 12.
SHOWN_V = (
    "/shared       \t10.0.0.1(sync,wdelay,hide,no_subtree_check,sec=sys,rw,root_squash,no_all_squash)\n"
    "/var/tmp/nonexistent\n"
    "\t\t10.0.1.0/24(sync,wdelay,hide,no_subtree_check,sec=sys,ro,root_squash,no_all_squash)\n"
)
SHOWN_S = (
    "/shared  10.0.0.1(sync,wdelay,hide,no_subtree_check,sec=sys,rw,root_squash,no_all_squash)\n"
    "/shared  10.0.1.0/24(sync,wdelay,hide,no_subtree_check,sec=sys,rw,root_squash,no_all_squash)\n"
    "/data  ctl.cluster.example(sync,wdelay,hide,no_subtree_check,sec=sys,ro,root_squash,no_all_squash)\n"
)


@pytest.mark.parametrize(
    ("defaults", "own", "merged"),
    [
        (["rw", "sync", "root_squash"], [], ["rw", "sync", "root_squash"]),
        (["rw", "sync"], ["ro"], ["sync", "ro"]),
        (["root_squash"], ["no_root_squash"], ["no_root_squash"]),
        (["hide", "rw"], ["crossmnt"], ["rw", "crossmnt"]),
        (["fsid=1"], ["fsid=2"], ["fsid=2"]),
        (["sync"], ["sync"], ["sync"]),
    ],
)
def test_own_options_win(defaults: list[str], own: list[str], merged: list[str]) -> None:
    assert merge_options(defaults, own) == merged


@pytest.mark.parametrize(
    ("addresses", "networks", "clients"),
    [
        (["10.0.0.1", "10.0.0.2"], [], ["10.0.0.1", "10.0.0.2"]),
        (["10.0.0.1", "10.0.0.2"], ["10.0.0.0/24"], ["10.0.0.0/24"]),
        (["10.0.0.1", "192.168.1.5", "gpu7"], ["10.0.0.0/24"], ["10.0.0.0/24", "192.168.1.5", "gpu7"]),
        (["fd00::1", "10.0.0.1"], ["fd00::/64"], ["fd00::/64", "10.0.0.1"]),
        (["10.0.0.1", "10.0.0.1"], [], ["10.0.0.1"]),
    ],
)
def test_only_declared_networks_are_used(addresses: list[str], networks: list[str], clients: list[str]) -> None:
    assert fold_clients(addresses, networks) == clients


def test_a_thousand_nodes_are_a_thousand_clients_or_one_network() -> None:
    addresses = [f"10.0.{number // 250}.{number % 250 + 1}" for number in range(1000)]
    assert len(shown_exports(exports_file([{"path": "/shared"}], fold_clients(addresses, []), ["rw"]))) == 1000
    folded = fold_clients(addresses, ["10.0.0.0/16"])
    assert exports_file([{"path": "/shared"}], folded, ["rw"]) == "/shared \\\n    10.0.0.0/16(rw)\n"


def test_the_file() -> None:
    exports: list[dict[str, Any]] = [
        {"path": "/shared/"},
        {"path": "/data", "clients": ["10.0.0.5", "10.1.0.0/16"], "options": ["ro"]},
    ]
    assert exports_file(exports, ["10.0.0.0/24"], ["rw", "sync"]) == (
        "/shared \\\n    10.0.0.0/24(rw,sync)\n/data \\\n    10.0.0.5(sync,ro) \\\n    10.1.0.0/16(sync,ro)\n"
    )


def test_what_exportfs_shows_is_read() -> None:
    assert shown_exports(SHOWN_V) == {("/shared", "10.0.0.1"), ("/var/tmp/nonexistent", "10.0.1.0/24")}  # noqa: S108
    assert shown_exports("# /no 10.0.0.1(rw)\n\n") == set()


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        ("/shared \\\n    10.0.0.1(rw) \\\n    10.0.1.0/24(rw)\n", []),
        ("/shared 10.0.0.1/32(rw)\n", []),
        ("/shared 10.0.0.9(rw)\n", [("/shared", "10.0.0.9")]),
        ("/other 10.0.0.1(rw)\n", [("/other", "10.0.0.1")]),
        ("/data ctl(ro)\n", []),
        ("/shared ctl(ro)\n", [("/shared", "ctl")]),
        ("", []),
    ],
)
def test_missing_exports(wanted: str, missing: list[tuple[str, str]]) -> None:
    assert missing_exports(wanted, SHOWN_S) == missing
