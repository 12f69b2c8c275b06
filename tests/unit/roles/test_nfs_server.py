"""Tests of the exports file, and of the detection of inactive exports."""

from __future__ import annotations

from typing import Any

import pytest
from role_files import rendered, value

FILE = "etc/exports.d/busbar.exports.j2"
# Output of `exportfs -s` (nfs-utils 2.6.2, Debian 12).
SHOWN = (
    "/shared  10.0.0.1(sync,wdelay,hide,no_subtree_check,sec=sys,rw,root_squash,no_all_squash)",
    "/shared  10.0.1.0/24(sync,wdelay,hide,no_subtree_check,sec=sys,rw,root_squash,no_all_squash)",
    "/data  ctl.cluster.example(sync,wdelay,hide,no_subtree_check,sec=sys,ro,root_squash,no_all_squash)",
)


def lines(exports: list[dict[str, Any]], *options: str) -> list[str]:
    given = {"nfs_server_exports": exports, "__nfs_server_clients": ["10.0.0.0/24"], "nfs_server_options": [*options]}
    return [line for line in rendered("nfs_server", FILE, **given).splitlines() if not line.startswith("#")]


def test_exports_file_has_a_line_for_each_client() -> None:
    exports: list[dict[str, Any]] = [{"path": "/shared/"}]
    exports += [{"path": "/data", "clients": ["10.0.0.5", "10.1.0.0/16"], "options": ["ro"]}]
    assert lines(exports, "rw", "sync") == [
        "/shared \\",
        "    10.0.0.0/24(rw,sync)",
        "/data \\",
        "    10.0.0.5(rw,sync,ro) \\",
        "    10.1.0.0/16(rw,sync,ro)",
    ]


@pytest.mark.parametrize(
    ("own", "merged"),
    [
        ([], "rw,sec=krb5,fsid=1"),
        # exportfs uses the last of conflicting options (nfs-utils, support/nfs/exports.c, parseopts).
        (["ro"], "rw,sec=krb5,fsid=1,ro"),
        # exportfs combines several sec=.
        (["sec=sys"], "rw,fsid=1,sec=sys"),
        (["rw", "fsid=2"], "sec=krb5,rw,fsid=2"),
    ],
)
def test_options_of_an_export_take_precedence(own: list[str], merged: str) -> None:
    written = lines([{"path": "/shared", "options": own}], "rw", "sec=krb5", "fsid=1")
    assert written[1] == f"    10.0.0.0/24({merged})"


@pytest.mark.parametrize(
    ("path", "clients", "missing"),
    [
        ("/shared", ["10.0.0.1", "10.0.1.0/24"], []),
        ("/shared/", ["10.0.0.1"], []),
        ("/shared", ["10.0.0.9"], ["/shared for 10.0.0.9"]),
        ("/other", ["10.0.0.1"], ["/other for 10.0.0.1"]),
        ("/data", ["ctl"], []),
        ("/other", ["ctl"], ["/other for ctl"]),
    ],
)
def test_exports_missing_in_exportfs_are_inactive(path: str, clients: list[str], missing: list[str]) -> None:
    given = {"nfs_server_exports": [{"path": path}], "__nfs_server_clients": clients}
    found = value("nfs_server", "__nfs_server_inactive", __nfs_server_table={"stdout_lines": [*SHOWN]}, **given)
    assert found == missing
