"""Tests of the mount options of NFS clients."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from templates import TOP, worked_out

VARIABLES = {
    key: value
    for name in ("defaults", "vars")
    for key, value in yaml.safe_load((TOP / f"roles/nfs_client/{name}/main.yml").read_text()).items()
}
BASE = "vers=4.2,hard,nconnect=4,rsize=1048576,wsize=1048576,nosuid"


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ({}, BASE),
        ({"options": ["ro"]}, f"{BASE},ro"),
        ({"options": ["soft"]}, "vers=4.2,nconnect=4,rsize=1048576,wsize=1048576,nosuid,soft"),
        ({"options": ["nfsvers=3", "suid"]}, "hard,nconnect=4,rsize=1048576,wsize=1048576,nfsvers=3,suid"),
        ({"options": ["nconnect=16"]}, "vers=4.2,hard,rsize=1048576,wsize=1048576,nosuid,nconnect=16"),
        (
            {"options": ["proto=rdma", "port=20049"]},
            "vers=4.2,hard,rsize=1048576,wsize=1048576,nosuid,proto=rdma,port=20049",
        ),
    ],
)
def test_options_of_a_mount_take_precedence(more: dict[str, Any], options: str) -> None:
    mount = {"src": "ctl:/shared", "path": "/shared", **more}
    (entry,) = worked_out(
        "{{ __nfs_client_entries }}", **{**VARIABLES, "nfs_client_options": ["nosuid"], "nfs_client_mounts": [mount]}
    )
    assert ",".join(entry["options"]) == options
    assert (entry["type"], entry["automount"]) == ("nfs", False)


def test_zero_keeps_the_kernels_sizes_and_connections() -> None:
    none = {"nfs_client_rsize": 0, "nfs_client_wsize": 0, "nfs_client_nconnect": 0, "nfs_client_options": []}
    mount = {"src": "ctl:/home", "path": "/home"}
    (entry,) = worked_out("{{ __nfs_client_entries }}", **{**VARIABLES, **none, "nfs_client_mounts": [mount]})
    assert entry["options"] == ["vers=4.2", "hard"]
