"""Tests of disk facts, parsed from the output of programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.scratch_facts import (
    array_of,
    block_tree,
    mount_at,
    pv_group,
    signatures,
)

GPT = {"device": "vdb", "offset": "0x200", "type": "gpt", "uuid": None, "label": None}
LSBLK = {
    "path": "/dev/vdb",
    "maj:min": "254:16",
    "type": "disk",
    "size": 1073741824,
    "ro": False,
    "mountpoints": [None],
    "children": [
        {
            "path": "/dev/md127",
            "maj:min": "9:127",
            "type": "raid0",
            "size": 2143289344,
            "ro": False,
            "mountpoints": ["/scratch", None],
        }
    ],
}
EXAMINE = """MD_LEVEL=raid0
MD_DEVICES=2
MD_NAME=any:scratch
MD_ARRAY_SIZE=2.14GB
MD_UUID=0123abcd:4567cdef:89ab0123:cdef4567
MD_UPDATE_TIME=1763694000
"""
MOUNTINFO = """22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 9:127 / /scratch rw,noatime - xfs /dev/md127 rw
31 22 0:40 / /with\\040blank rw shared:7 - tmpfs none rw
32 22 9:126 / /scratch rw - xfs /dev/md126 rw
"""


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("", []),
        ('{"signatures": []}', []),
        (json.dumps({"signatures": [GPT, {**GPT, "offset": "0x3ffffe00"}, {**GPT, "type": "PMBR"}]}), ["gpt", "PMBR"]),
    ],
)
def test_signatures(text: str, types: list[str]) -> None:
    assert [item["type"] for item in signatures(text)] == types


def test_signature_keeps_label_and_uuid() -> None:
    entry = {"device": "vdb", "offset": "0x0", "type": "xfs", "uuid": "fb9a19ad-cf80-42c2", "label": "data"}
    assert signatures(json.dumps({"signatures": [entry]})) == [
        {"type": "xfs", "label": "data", "uuid": "fb9a19ad-cf80-42c2"}
    ]


def test_tree_of_a_disk() -> None:
    disk, array = block_tree(json.dumps({"blockdevices": [LSBLK]}))
    assert (disk["path"], disk["kind"], disk["size"], disk["mountpoints"]) == ("/dev/vdb", "disk", 1 << 30, [])
    assert (array["path"], array["number"], array["mountpoints"]) == ("/dev/md127", "9:127", ["/scratch"])


@pytest.mark.parametrize(("read_only", "expected"), [(False, False), (True, True), ("0", False), ("1", True)])
def test_read_only_flag_of_old_and_new_lsblk_is_parsed(read_only: object, *, expected: bool) -> None:
    entry: dict[str, Any] = {**LSBLK, "ro": read_only, "children": []}
    assert block_tree(json.dumps({"blockdevices": [entry]}))[0]["read_only"] is expected


def test_empty_device_list_is_refused() -> None:
    with pytest.raises(ValueError, match="does not list this device"):
        block_tree('{"blockdevices": []}')


def test_array() -> None:
    assert array_of(EXAMINE) == {
        "name": "scratch",
        "uuid": "0123abcd-4567-cdef-89ab-0123cdef4567",
        "level": "raid0",
        "devices": 2,
    }
    assert array_of("") is None
    assert array_of("MD_LEVEL=raid0\n") is None


@pytest.mark.parametrize(
    ("row", "name"), [({"vg_name": "scratch", "vg_uuid": "a-b", "pv_count": "2"}, "scratch"), ({"vg_name": ""}, None)]
)
def test_volume_group(row: dict[str, str], name: str | None) -> None:
    group = pv_group(json.dumps({"report": [{"pv": [row]}]}))
    assert (group and group["name"]) == name
    assert group is None or (group["level"], group["devices"]) == ("lvm", 2)
    assert pv_group("") is None


def test_mount() -> None:
    assert mount_at(MOUNTINFO, "/") == {"number": "254:0", "source": "/dev/vda", "type": "ext4"}
    assert mount_at(MOUNTINFO, "/scratch") == {"number": "9:126", "source": "/dev/md126", "type": "xfs"}
    assert mount_at(MOUNTINFO, "/with blank") == {"number": "0:40", "source": "none", "type": "tmpfs"}
    assert mount_at(MOUNTINFO, "/elsewhere") is None
