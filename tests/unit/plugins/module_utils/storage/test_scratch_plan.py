"""Tests of the plan for scratch disks, and of refused disks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.scratch_plan import (
    declaration_problems,
    scratch_plan,
)

HOST = "gpu1"
UUID = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
A, B, C = (f"/dev/disk/by-id/virtio-{letter}" for letter in "abc")
DECLARED: dict[str, Any] = {
    "devices": [A, B],
    "raid": "mdadm",
    "wipe": {},
    "path": "/scratch",
    "name": "scratch",
    "uuid": UUID,
    "chunk_kb": 512,
    "minimum_mb": 1000,
    "mkfs_options": [],
}
XFS = {"type": "xfs", "label": "data", "uuid": OTHER}
MEMBER = {"type": "linux_raid_member", "label": "any:scratch", "uuid": UUID}
GROUP = {"name": "scratch", "uuid": UUID, "level": "raid0", "devices": 2}


def disk(given: str, *contents: dict[str, str], **other: Any) -> dict[str, Any]:  # noqa: ANN401 - facts of any type
    """Return the facts of /dev/vda, vdb or vdc, with the content on the disk itself."""
    path = f"/dev/vd{given[-1]}"
    facts: dict[str, Any] = {
        "path": path,
        "kind": "disk",
        "number": f"254:{ord(given[-1])}",
        "size": 4 << 30,
        "read_only": False,
        "mountpoints": [],
        "given": given,
        "ids": [given] if "by-id" in given else [],
        "busy": False,
        "contents": [{"device": path, **item} for item in contents],
        "data": None,
        "group": None,
        "above": [],
    }
    return {**facts, **other}


def array(*contents: dict[str, str], kind: str = "raid0", state: str = "clean", **other: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the facts of /dev/md127 with this content."""
    facts = {"path": "/dev/md127", "kind": kind, "number": "9:127", "size": 8 << 30, "state": state, "mountpoints": []}
    return {**facts, "contents": [{"device": "/dev/md127", **item} for item in contents], "data": None, **other}


def ours(given: str, *above: dict[str, Any], **group: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the facts of a disk of busbar's array."""
    return disk(given, MEMBER, group={**GROUP, **group}, above=list(above), busy=bool(above))


def plan(*devices: dict[str, Any], mount: Any = None, place: str = "absent", **declared: Any) -> dict[str, Any]:  # noqa: ANN401
    entries = ["results"] if place == "full" else []
    kind = "directory" if place == "full" else place
    facts = {"devices": list(devices), "mount": mount, "place": kind, "entries": entries}
    given = {**DECLARED, "devices": [item["given"] for item in devices], **declared}
    return scratch_plan(HOST, given, facts)


def said(found: dict[str, Any]) -> str:
    return " | ".join(f"{item['key']}: {item['problem']} -> {item['remedy']}" for item in found["problems"])


def words(found: dict[str, Any]) -> list[str]:
    """Return the commands that would run."""
    return [step[0] for step in found["steps"] if step[0] != "udevadm"]


def test_blank_disks_are_used() -> None:
    found = plan(disk(A), disk(B))
    assert found["problems"] == []
    assert words(found) == ["mdadm", "wipefs", "mkfs.xfs"]
    assert found["steps"][0][-2:] == [A, B]
    assert "--run" not in found["steps"][0]
    assert "-f" not in found["steps"][-2]
    assert found["uuid"] == UUID
    assert found["array"] == "11111111:22223333:44445555:55555555"


def test_blank_disks_become_an_lvm_volume() -> None:
    found = plan(disk(A), disk(B), raid="lvm")
    assert found["steps"][0] == ["vgcreate", "scratch", A, B]
    assert words(found) == ["vgcreate", "lvcreate", "mkfs.xfs"]


@pytest.mark.parametrize(
    "kind", ["xfs", "ext4", "swap", "linux_raid_member", "LVM2_member", "zfs_member", "BitLocker", "crypto_LUKS", "gpt"]
)
def test_disk_with_any_content_is_refused(kind: str) -> None:
    found = plan(disk(A), disk(B, {"type": kind, "label": "precious", "uuid": OTHER}))
    assert len(found["problems"]) == 1
    assert found["problems"][0]["hosts"] == [HOST]
    for part in (B, "/dev/vdb, 4.3 GB", kind, "'precious'", OTHER, f"scratch_wipe_devices: {{gpu1: [{B}]}}"):
        assert part in said(found)


def test_file_system_on_a_partition_is_named() -> None:
    item = disk(B, {"type": "gpt", "label": "", "uuid": ""})
    item["above"] = [array(kind="part", path="/dev/vdb1")]
    item["contents"].append({"device": "/dev/vdb1", "type": "ext4", "label": "home", "uuid": OTHER})
    assert "ext4 labelled 'home'" in said(plan(disk(A), item))
    assert "on /dev/vdb1" in said(plan(disk(A), item))
    allowed = plan(disk(A), item, wipe={HOST: [B]})
    assert allowed["problems"] == []
    assert allowed["steps"][0] == ["wipefs", "--all", "/dev/vdb1", "/dev/vdb"]


@pytest.mark.parametrize(
    ("wipe", "allowed"),
    [
        ({HOST: [B]}, True),
        ({HOST: [A, B]}, True),
        ({HOST: [A]}, False),
        ({"gpu2": [B]}, False),
        ({HOST: ["/dev/vdb"]}, False),
        ({HOST: None}, False),
    ],
)
def test_wipe_is_allowed_only_by_disk_id_on_this_host(wipe: dict[str, Any], *, allowed: bool) -> None:
    found = plan(disk(A), disk(B, XFS), wipe=wipe)
    assert (found["problems"] == []) is allowed
    if allowed:
        assert found["steps"][0] == ["wipefs", "--all", "/dev/vdb"]


def test_suggested_wipe_option_keeps_allowed_disks() -> None:
    found = plan(disk(A, XFS), disk(B, XFS), wipe={HOST: [A]})
    assert f"scratch_wipe_devices: {{gpu1: [{A}, {B}]}}" in said(found)


def test_disk_without_an_id_must_be_wiped_manually() -> None:
    assert "wipe it manually: wipefs --all /dev/vdb" in said(plan(disk(A), disk("/dev/vdb", XFS)))


@pytest.mark.parametrize(
    ("other", "part"),
    [
        ({"mountpoints": ["/data"], "busy": True}, "/dev/vdb is mounted at /data"),
        ({"mountpoints": ["[SWAP]"], "busy": True}, "/dev/vdb is swap in use"),
        ({"above": [array(kind="part", path="/dev/vdb1", mountpoints=["/"])]}, "/dev/vdb1 is mounted at /"),
        ({"above": [array(kind="crypt", path="/dev/mapper/secret")]}, "/dev/mapper/secret (crypt) uses it"),
        ({"busy": True}, "it is held open exclusively"),
    ],
)
def test_disk_in_use_is_refused_even_if_listed_for_wiping(other: dict[str, Any], part: str) -> None:
    found = plan(disk(A), disk(B, XFS, **other), wipe={HOST: [B]})
    assert part in said(found)
    assert "never wiped" in said(found)


@pytest.mark.parametrize(
    ("item", "part"),
    [
        ({"given": B, "path": "", "kind": "missing"}, "does not exist"),
        ({"given": B, "path": "", "kind": "other"}, "is not a block device"),
        (disk(B, kind="part"), "is a partition -> set the whole disk"),
        (disk(B, kind="raid1"), "is a raid1, not a disk"),
        (disk(B, size=64 << 20), "has only 67 MB (scratch_minimum_mb: 1000)"),
        (disk(B, read_only=True), "is read-only"),
        (disk(B, path="/dev/vda"), f"{B} and {A} are the same disk, /dev/vda"),
    ],
)
def test_path_that_is_not_a_separate_disk_is_refused(item: dict[str, Any], part: str) -> None:
    found = plan(disk(A), item)
    assert part in said(found)
    assert found["steps"] == []


def test_own_scratch_is_left_unchanged() -> None:
    own = array({"type": "xfs", "label": "scratch", "uuid": OTHER}, mountpoints=["/scratch"])
    mount = {"number": "9:127", "source": "/dev/md127", "type": "xfs"}
    found = plan(ours(A, own), ours(B, own), mount=mount, place="directory", wipe={HOST: [A, B]})
    assert (found["problems"], found["steps"], found["uuid"]) == ([], [], OTHER)
    assert any(f"uuid={OTHER}" in step for step in found["recipe"])


def test_own_scratch_is_recognised_by_its_uuid_under_another_name() -> None:
    own = array({"type": "xfs", "label": "scratch", "uuid": UUID})
    assert plan(ours(A, own, name="md0"), ours(B, own, name="md0"))["steps"] == []


def test_own_inactive_array_is_started() -> None:
    found = plan(ours(A), ours(B))
    assert found["problems"] == []
    assert found["steps"][0] == ["mdadm", "--assemble", "/dev/md/scratch", "--uuid", found["array"]]
    group = {**GROUP, "level": "lvm"}
    volume = [disk(name, {**MEMBER, "type": "LVM2_member"}, group=group) for name in (A, B)]
    assert plan(*volume, raid="lvm")["steps"][0] == ["vgchange", "--activate", "y", "scratch"]


def test_unformatted_own_array_is_formatted() -> None:
    found = plan(ours(A, array()), ours(B, array()))
    assert (found["problems"], words(found)) == ([], ["mkfs.xfs"])


@pytest.mark.parametrize(
    ("devices", "part"),
    [
        ([ours(A, array(XFS), devices=3), ours(B, array(XFS), devices=3)], "has 3 disks (declared: 2)"),
        (
            [ours(A, array(XFS)), ours(B, array(XFS)), disk(C)],
            f"{A}, {B} belong to the scratch file system {UUID}, but {C}",
        ),
        ([ours(A, array(XFS)), ours(B, array(XFS), uuid=OTHER)], "which are different file systems"),
        ([ours(A, array(state="broken")), ours(B)], "/dev/md127 is broken"),
        ([ours(A, array({**XFS, "type": "ext4"})), ours(B)], "contains ext4 labelled 'data'"),
        ([ours(A, array(XFS, mountpoints=["/old"])), ours(B)], "is already mounted at /old"),
    ],
)
def test_changed_or_damaged_scratch_is_refused(devices: list[dict[str, Any]], part: str) -> None:
    found = plan(*devices)
    assert part in said(found)
    assert len(found["problems"]) == 1


def test_released_disks_of_an_old_scratch_are_reused() -> None:
    found = plan(ours(A), ours(B), disk(C), wipe={HOST: [A, B]})
    assert found["problems"] == []
    assert words(found) == ["wipefs", "wipefs", "mdadm", "wipefs", "mkfs.xfs"]
    assert "belong to the scratch file system" in said(plan(ours(A), ours(B), disk(C), wipe={HOST: [A]}))


def test_plan_is_undecided_without_mdadm() -> None:
    found = plan(ours(A, level="unknown"), ours(B, level="unknown"))
    assert (found["problems"], found["steps"], found["undecided"]) == ([], [], True)


def test_unverifiable_disk_is_not_ours() -> None:
    member = disk(B, {**MEMBER, "type": "LVM2_member"}, group={**GROUP, "level": "unknown"})
    found = plan(disk(A), member)
    assert found["undecided"] is False
    assert f"{B} (/dev/vdb, 4.3 GB) holds LVM2_member" in said(found)


def test_single_own_disk_is_kept_and_foreign_one_refused() -> None:
    own = disk(A, {**XFS, "label": "scratch"}, mountpoints=["/scratch"], busy=True)
    mount = {"number": own["number"], "source": "/dev/vda", "type": "xfs"}
    found = plan(own, raid="none", mount=mount, place="directory")
    assert (found["problems"], found["steps"], found["uuid"]) == ([], [], OTHER)
    assert "holds xfs labelled 'data'" in said(plan(disk(A, XFS), raid="none"))


@pytest.mark.parametrize(
    ("mount", "place", "part"),
    [
        (
            {"number": "8:1", "source": "/dev/sda1", "type": "ext4"},
            "directory",
            "/dev/sda1 (ext4) is mounted at /scratch",
        ),
        (None, "other", "/scratch exists and is not a directory"),
        (None, "full", "/scratch is not empty (results, …)"),
    ],
)
def test_mount_point_in_use_is_refused(mount: Any, place: str, part: str) -> None:  # noqa: ANN401
    assert part in said(plan(disk(A), disk(B), mount=mount, place=place))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"devices": [A, A]}, f"scratch_devices: {A} is listed twice"),
        ({"devices": ["nvme0n1", B]}, "'nvme0n1' is not a path under /dev"),
        ({"raid": "none"}, "'none' is not possible with 2 device(s)"),
        ({"devices": [A]}, "'mdadm' is not possible with 1 device(s)"),
        ({"raid": "zfs"}, "'zfs' is not possible"),
        ({"name": "Scratch-1"}, "is not a valid array name"),
        ({"name": "a" * 13}, "is not a valid array name"),
        ({"path": "scratch"}, "is not a usable mount point"),
        ({"path": "/"}, "is not a usable mount point"),
        ({"path": "/home"}, "is not a usable mount point"),
        ({"path": "/data/../etc"}, "is not a usable mount point"),
        ({"path": "/scratch/"}, "is not a usable mount point"),
        ({"wipe": {HOST: ["/dev/vdb"]}}, "'/dev/vdb' is not a persistent disk name"),
        ({"wipe": {HOST: [C]}}, f"{C} is not in scratch_devices"),
        ({"wipe": {"gpu2": ["/dev/vdb"]}}, ""),
        ({}, ""),
        ({"path": "/data/scratch"}, ""),
    ],
)
def test_declaration(change: dict[str, Any], part: str) -> None:
    problems = declaration_problems(HOST, {**DECLARED, **change})
    assert len(problems) == bool(part)
    assert part in said({"problems": problems})


def test_disk_without_a_signature_is_not_necessarily_blank() -> None:
    """The disk may hold plain dm-crypt, a database's raw device or a damaged header."""
    found = plan(disk(A), disk(B, data=1048577))
    assert found["steps"] == [] or found["problems"]
    text = said(found)
    assert found["problems"][0]["hosts"] == [HOST]
    assert f"{B} (/dev/vdb, 4.3 GB) holds data without a known signature, first at byte 1048577" in text
    assert f"to destroy all data on this disk: scratch_wipe_devices: {{gpu1: [{B}]}}" in text
    allowed = plan(disk(A), disk(B, data=1048577), wipe={HOST: [B]})
    assert allowed["problems"] == []
    assert words(allowed) == ["mdadm", "wipefs", "mkfs.xfs"]


def test_data_on_a_disk_without_an_id_must_be_wiped_manually() -> None:
    found = plan(disk("/dev/vda", data=0), raid="none")
    assert "wipe it manually: blkdiscard --zeroout /dev/vda" in said(found)


def test_array_of_our_name_is_formatted_only_if_blank_or_listed_for_wiping() -> None:
    """The damaged file system may be on a foreign array that is also named scratch."""
    blank = plan(ours(A, array()), ours(B, array()))
    assert blank["problems"] == []
    assert words(blank) == ["mkfs.xfs"]
    damaged = ours(A, array(data=4096)), ours(B, array(data=4096))
    text = said(plan(*damaged))
    assert "/dev/md127 contains data without a known signature, first at byte 4096 instead of XFS" in text
    assert f"scratch_wipe_devices: {{gpu1: [{A}, {B}]}}" in text
    assert said(plan(*damaged, wipe={HOST: [A]})) != ""
    assert plan(*damaged, wipe={HOST: [A, B]})["problems"] == []
