"""Tests that the module formats only disks that are blank both when it plans and when it starts."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.module_utils.storage import scratch_host
from ansible_collections.busbar.cluster.plugins.modules import scratch_filesystem
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., dict[str, Any]]

A, B = "/dev/disk/by-id/virtio-a", "/dev/disk/by-id/virtio-b"
UUID = "11111111-2222-3333-4444-555555555555"
DECLARED: dict[str, Any] = {
    "devices": [A],
    "raid": "none",
    "name": "scratch",
    "path": "/scratch",
    "uuid": UUID,
    "chunk_kb": 512,
    "minimum_mb": 1000,
    "wipe": {},
    "mkfs_options": [],
}
XFS = {"device": "/dev/vda", "type": "xfs", "label": "scratch", "uuid": UUID}
EXT4 = {"device": "/dev/vda", "type": "ext4", "label": "thesis", "uuid": ""}
MEMBER = {"device": "/dev/vda", "type": "linux_raid_member", "label": "any:scratch", "uuid": UUID}
PROGRAMS = ("mdadm", "mkfs.xfs", "udevadm", "wipefs")


def facts(*contents: dict[str, str], given: tuple[str, ...] = (A,), **other: Any) -> dict[str, Any]:  # noqa: ANN401 - facts of any type
    """Return the facts of disks with these contents."""
    device: dict[str, Any] = {
        "kind": "disk",
        "number": "254:1",
        "size": 4 << 30,
        "read_only": False,
        "mountpoints": [],
        "busy": False,
        "contents": list(contents),
        "data": None,
        "group": None,
        "above": [],
        **other,
    }
    devices = [{**device, "given": name, "ids": [name], "path": f"/dev/vd{name[-1]}"} for name in given]
    return {"devices": copy.deepcopy(devices), "mount": None, "place": "absent", "entries": []}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write fake programs that record their calls, and return the log file."""
    log = tmp_path / "called"
    log.touch()
    for name in PROGRAMS:
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        executable(program, f'#!/bin/sh\necho "{name} $*" >>{log}\ntest ! -e {tmp_path}/broken-{name}\n')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(
        AnsibleModule,
        "get_bin_path",
        lambda _self, name, *_rest: path if Path(path := f"{tmp_path}/bin/{name}").exists() else None,
    )
    return log


@pytest.fixture
def make(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that runs the module with these results of successive disk reads."""

    def run(*found: dict[str, Any], check: bool = False, **change: object) -> dict[str, Any]:
        left = list(found)
        monkeypatch.setattr(scratch_filesystem, "read_scratch", lambda *_: left.pop(0))
        given = {"host": "gpu1", "settings": {**DECLARED, **change}, "_ansible_check_mode": check}
        with patch_module_args(given), pytest.raises(SystemExit):
            scratch_filesystem.main()
        assert left == [], "read less often than expected"
        return dict(json.loads(capsys.readouterr().out))

    return run


def test_blank_disk_is_formatted(make: Make, programs: Path) -> None:
    answer = make(facts(), facts(), facts(XFS))
    mkfs = f"mkfs.xfs -q -L scratch -m uuid={UUID} {A}"
    assert (answer["changed"], answer["uuid"], answer["commands"][0]) == (True, UUID, mkfs)
    assert answer["diff"][0]["after"].splitlines()[0] == mkfs
    assert programs.read_text().splitlines() == [mkfs, "udevadm settle --timeout=30"]


def test_existing_file_system_is_not_a_change(make: Make, programs: Path) -> None:
    answer = make(facts(XFS))
    assert (answer["changed"], answer["diff"], answer["missing_programs"]) == (False, [], [])
    assert answer["recipe"][0][0] == "mkfs.xfs"
    assert programs.read_text() == ""


def test_check_mode_runs_nothing(make: Make, programs: Path) -> None:
    answer = make(facts(), check=True)
    assert answer["changed"] is True
    assert "mkfs.xfs" in answer["diff"][0]["after"]
    assert programs.read_text() == ""


def test_disk_changed_since_the_plan_is_left_unchanged(make: Make, programs: Path) -> None:
    answer = make(facts(), facts(EXT4))
    assert "Nothing was changed" in answer["msg"]
    assert programs.read_text() == ""


def test_disk_with_data_is_refused(make: Make, programs: Path) -> None:
    answer = make(facts(EXT4))
    assert answer["busbar_refused"] is True
    assert answer["msg"].startswith("The disks were not changed:\ngpu1: scratch_devices: ")
    assert "holds ext4 labelled 'thesis'" in answer["msg"]
    assert f"    remedy: to destroy all data on this disk: scratch_wipe_devices: {{gpu1: [{A}]}}" in answer["msg"]
    assert answer["problems"][0]["hosts"] == ["gpu1"]
    assert programs.read_text() == ""


def test_invalid_declaration_is_refused_before_a_disk_is_read(make: Make) -> None:
    answer = make(path="/home")
    assert answer["msg"].startswith(
        "The scratch file system cannot be created as declared:\ngpu1: scratch_path: '/home' is not a usable"
    )
    assert "is not possible with" in make(raid="zfs")["msg"]


def test_array_is_started_before_its_contents_are_read(make: Make, programs: Path) -> None:
    group = {"name": "scratch", "uuid": UUID, "level": "raid0", "devices": 2}
    array = {"path": "/dev/md127", "kind": "raid0", "number": "9:127", "size": 8 << 30, "state": "clean"}
    array |= {"mountpoints": [], "contents": [], "data": None}
    two: dict[str, Any] = {"given": (A, B), "group": group}
    stopped, blank = facts(MEMBER, **two), facts(MEMBER, **two, above=[array])
    change: dict[str, Any] = {"devices": [A, B], "raid": "mdadm"}
    answer = make(stopped, stopped, blank, blank, **change)
    assert [line.split()[0] for line in answer["commands"]] == ["mdadm", "udevadm", "mkfs.xfs", "udevadm"]
    assert "--assemble" in answer["commands"][0]

    programs.write_text("")
    array |= {"contents": [{**EXT4, "device": "/dev/md127"}]}
    answer = make(stopped, stopped, facts(MEMBER, **two, above=[array]), **change)
    assert answer["msg"].startswith("No further changes were made to the disks:\n")
    assert "mkfs" not in programs.read_text()


def test_missing_programs_are_reported_and_problems_still_found(make: Make, programs: Path) -> None:
    (programs.parent / "bin" / "mkfs.xfs").unlink()
    answer = make(facts())
    assert (answer["changed"], answer["missing_programs"]) == (False, ["mkfs.xfs"])
    assert "holds ext4" in make(facts(EXT4))["msg"]
    assert make(facts(), check=True)["changed"] is True
    assert programs.read_text() == ""


def test_first_failure_ends_the_module(make: Make, programs: Path) -> None:
    (programs.parent / "broken-mkfs.xfs").touch()
    answer = make(facts(), facts())
    assert answer["msg"].startswith("gpu1: `mkfs.xfs -q")
    assert "` failed: " in answer["msg"]
    assert programs.read_text().count("\n") == 1


def test_interactive_program_fails_without_input(make: Make, programs: Path) -> None:
    (programs.parent / "bin" / "mkfs.xfs").write_text("#!/bin/sh\nread answer\n")
    assert "failed" in make(facts(), facts())["msg"]


def test_a_missing_device_is_distinguished_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def run(_words: list[str]) -> tuple[int | None, str, str]:
        raise AssertionError

    found = scratch_host.read_scratch(run, [str(tmp_path / "file"), str(tmp_path / "gone")], str(tmp_path))
    assert [item["kind"] for item in found["devices"]] == ["other", "missing"]
    assert (found["place"], found["entries"], found["mount"]) == ("directory", ["file"], None)


def test_readable_disk_ids_come_first(tmp_path: Path) -> None:
    disk = tmp_path / "nvme0n1"
    disk.touch()
    folder = tmp_path / "by-id"
    folder.mkdir()
    for name in ("wwn-0x5", "nvme-eui.0025", "nvme-MODEL_S1", "lvm-pv-uuid-x", "dm-name-y"):
        (folder / name).symlink_to(disk)
    (folder / "nvme-OTHER").symlink_to(tmp_path / "nvme1n1")
    assert [name.rpartition("/")[2] for name in scratch_host.disk_ids(str(disk), folder)] == [
        "nvme-MODEL_S1",
        "nvme-eui.0025",
        "wwn-0x5",
    ]
    assert scratch_host.disk_ids(str(disk), tmp_path / "none") == []
