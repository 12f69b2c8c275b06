"""Tests of whether the mounted file systems match the declared ones."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.mounts import (
    Mount,
    endpoints,
    fstab_options,
    is_same_mount,
    kernel_offers,
    mount_plan,
    nfs_source,
    on_network,
    option,
    parse_mountinfo,
    trial_options,
)

# From a Debian 12 client; the last lines are an automount below its mount, and a path with a space.
MOUNTINFO = r"""
22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
90 28 0:44 / /shared rw,nosuid,nodev,relatime shared:50 - nfs4 10.0.0.10:/shared rw,vers=4.2,hard,addr=10.0.0.10
91 28 0:45 / /data rw,relatime shared:51 - autofs systemd-1 rw,fd=47,pgrp=1,timeout=0
92 91 0:46 / /data rw,relatime shared:52 - nfs filer:/vol/data/ rw,vers=3,addr=10.0.0.20
93 28 254:16 / /mnt/my\040disk rw,relatime - xfs /dev/vdb rw
broken line
"""


def mount(path: str, fstype: str = "nfs4", source: str = "10.0.0.10:/shared", *options: str) -> Mount:
    return {"path": path, "fstype": fstype, "source": source, "options": list(options)}


def test_mountinfo_is_parsed() -> None:
    found = parse_mountinfo(MOUNTINFO)
    assert [(entry["path"], entry["fstype"]) for entry in found] == [
        ("/proc", "proc"),
        ("/", "ext4"),
        ("/shared", "nfs4"),
        ("/data", "autofs"),
        ("/data", "nfs"),
        ("/mnt/my disk", "xfs"),
    ]
    assert found[2]["source"] == "10.0.0.10:/shared"
    assert option(found[2]["options"], "addr") == "10.0.0.10"


@pytest.mark.parametrize(
    ("path", "network"),
    [("/home/alice", False), ("/shared/home/alice", True), ("/shared", True), ("/sharedx", False), ("/data/x", True)],
)
def test_network_path_is_recognised_without_accessing_it(path: str, *, network: bool) -> None:
    assert on_network(path, parse_mountinfo(MOUNTINFO)) is network


def test_local_mount_within_a_network_mount_is_local() -> None:
    assert not on_network("/shared/scratch/x", [mount("/shared"), mount("/shared/scratch", "xfs", "/dev/md0")])


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("ctl:/shared", ("ctl", "/shared")),
        ("10.0.0.10:/shared/", ("10.0.0.10", "/shared")),
        ("[fd00::1]:/x", ("fd00::1", "/x")),
        ("ctl:/", ("ctl", "/")),
    ],
)
def test_nfs_source(source: str, parts: tuple[str, str]) -> None:
    assert nfs_source(source) == parts


@pytest.mark.parametrize("source", ["ctl", "/shared", "ctl:shared", "c tl:/shared", "fd00::1:/x", ":/x", "ctl:/a b"])
def test_invalid_nfs_source_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="is not of the form server:/path"):
        nfs_source(source)


@pytest.mark.parametrize(
    ("kind", "src", "found", "addresses", "same"),
    [
        ("nfs", "10.0.0.10:/shared", mount("/s"), [], True),
        ("nfs", "10.0.0.10:/shared/", mount("/s"), [], True),
        ("nfs", "10.0.0.10:/other", mount("/s"), [], False),
        ("nfs", "ctl:/shared", mount("/s"), ["10.0.0.10"], True),
        ("nfs", "10.0.0.10:/shared", mount("/s", "nfs4", "ctl:/shared", "addr=10.0.0.10"), [], True),
        ("nfs", "ctl:/shared", mount("/s"), ["10.0.0.11"], False),
        ("nfs", "ctl:/shared", mount("/s", "ext4", "/dev/sdb1"), [], False),
        ("nfs", "ctl:/shared", mount("/s", "nfs4", "none"), [], False),
        ("lustre", "10.0.0.1@o2ib:/scratch", mount("/s", "lustre", "10.0.0.1@o2ib:/scratch"), [], True),
        ("lustre", "10.0.0.1@o2ib:/scratch", mount("/s", "lustre", "10.0.0.1@o2ib:/other"), [], False),
        ("cephfs", "mon1,mon2:/", mount("/s", "ceph", "10.0.0.1:6789,10.0.0.2:6789:/"), [], True),
        ("beegfs", "beegfs_nodev", mount("/s", "beegfs", "beegfs_nodev"), [], True),
        ("weka", "backend1/fs", mount("/s", "wekafs", "fs"), [], True),
    ],
)
def test_same_mount(kind: str, src: str, found: Mount, addresses: list[str], *, same: bool) -> None:
    assert is_same_mount({"type": kind, "src": src}, found, addresses) is same


@pytest.mark.parametrize(
    ("kind", "src", "options", "expected"),
    [
        ("nfs", "ctl:/shared", [], [("ctl", 2049)]),
        ("nfs", "[fd00::1]:/shared", ["port=20490"], [("fd00::1", 20490)]),
        ("nfs", "ctl:/shared", ["proto=rdma", "port=20049"], [("ctl", 2049)]),
        ("lustre", "10.0.0.1@tcp:10.0.0.2@tcp1:/fs", [], [("10.0.0.1", 988), ("10.0.0.2", 988)]),
        ("lustre", "10.0.0.1@o2ib:/fs", [], []),
        ("beegfs", "beegfs_nodev", [], []),
        ("weka", "b1,b2/fs", [], [("b1", 14000), ("b2", 14000)]),
        ("weka", "fs", [], []),
        ("cephfs", "m1,m2:6789:/x", [], [("m1", 3300), ("m1", 6789), ("m2", 3300), ("m2", 6789)]),
        (
            "cephfs",
            "admin@f0.fs=/",
            ["mon_addr=10.0.0.1:6789/10.0.0.2"],
            [("10.0.0.1", 3300), ("10.0.0.1", 6789), ("10.0.0.2", 3300), ("10.0.0.2", 6789)],
        ),
    ],
)
def test_endpoints(kind: str, src: str, options: list[str], expected: list[tuple[str, int]]) -> None:
    assert endpoints({"type": kind, "src": src, "options": options}) == expected


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"options": ["vers=4.2", "hard"]}, "vers=4.2,hard,_netdev,retry=5,x-systemd.mount-timeout=290s"),
        ({"options": ["retry=1"]}, "retry=1,_netdev,x-systemd.mount-timeout=290s"),
        ({"type": "lustre"}, "_netdev,x-systemd.mount-timeout=290s"),
        (
            {"type": "cephfs", "options": ["ro", "_netdev"], "automount": True},
            "ro,_netdev,x-systemd.automount,x-systemd.mount-timeout=290s",
        ),
    ],
)
def test_fstab_options(entry: dict[str, Any], text: str) -> None:
    assert fstab_options({"type": "nfs", **entry}, 290) == text


def test_plan_mounts_outer_paths_first() -> None:
    entries: list[dict[str, Any]] = [
        {"type": "nfs", "src": "filer:/x", "path": "/shared/x", "automount": True},
        {"type": "weka", "src": "fs", "path": "/shared", "options": ["ro"]},
    ]
    assert mount_plan(entries, 60) == [
        {
            "path": "/shared",
            "src": "fs",
            "fstype": "wekafs",
            "opts": "ro,_netdev,x-systemd.mount-timeout=60s",
            "automount": False,
        },
        {
            "path": "/shared/x",
            "src": "filer:/x",
            "fstype": "nfs",
            "opts": "_netdev,retry=1,x-systemd.automount,x-systemd.mount-timeout=60s",
            "automount": True,
        },
    ]


def test_trial_mount_is_read_only_and_times_out_soon() -> None:
    tried = trial_options(["vers=4.2", "hard", "nconnect=4", "rw", "timeo=600", "retry=5", "x-systemd.automount"])
    assert tried == "vers=4.2,nconnect=4,ro,soft,timeo=50,retrans=1,retry=0,nosharecache"


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("nfsd", True),
        ("nfs", True),
        ("nfs4", True),
        ("rpcrdma", True),
        ("lustre", False),
        ("ext", False),
        ("fs", False),
    ],
)
def test_kernel_offers(name: str, *, there: bool) -> None:
    dep = "kernel/fs/nfsd/nfsd.ko: kernel/fs/nfs_common/grace.ko\nkernel/fs/nfs/nfs.ko.xz:\nkernel/fs/ext4/ext4.ko:\n"
    builtin = "kernel/net/sunrpc/xprtrdma/rpcrdma.ko\n"
    assert kernel_offers(name, "nodev\tproc\nnodev\tnfs4\n\text4\n", [dep, builtin]) is there
