"""The module runs a plan only on what the plan was made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.module_utils.storage import scratch_host
from ansible_collections.busbar.cluster.plugins.modules import scratch_info, scratch_make

if TYPE_CHECKING:
    from pathlib import Path

SEEN: dict[str, Any] = {"devices": [], "mount": None, "place": "absent", "entries": []}


def make(
    capsys: pytest.CaptureFixture[str],
    path: Path,
    steps: list[list[str]],
    *,
    check: bool = False,
    seen: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the module on no disk at all; its answer."""
    args = {"devices": [], "path": str(path), "seen": seen or SEEN, "steps": steps, "_ansible_check_mode": check}
    with patch_module_args(args), pytest.raises(SystemExit):
        scratch_make.main()
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def test_steps_are_run_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made"
    answer = make(capsys, tmp_path / "gone", [["mkdir", str(made)], ["touch", str(made / "a b")]])
    assert answer["changed"] is True
    assert [path.name for path in made.iterdir()] == ["a b"]
    assert answer["diff"][0]["after"] == f"mkdir {made}\ntouch '{made}/a b'\n"


def test_nothing_to_do_is_no_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = make(capsys, tmp_path / "gone", [])
    assert (answer["changed"], answer["diff"]) == (False, [])


def test_check_mode_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = make(capsys, tmp_path / "gone", [["mkdir", str(tmp_path / "made")]], check=True)
    assert answer["changed"] is True
    assert list(tmp_path.iterdir()) == []


def test_what_has_changed_since_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "place").mkdir()
    answer = make(capsys, tmp_path / "place", [["mkdir", str(tmp_path / "made")]])
    assert "nothing was done" in answer["msg"]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("step", "said"),
    [(["false"], "`false` failed"), (["no-such-program", "--now"], "no-such-program is not installed")],
)
def test_the_first_failure_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: list[str], said: str
) -> None:
    answer = make(capsys, tmp_path / "gone", [step, ["mkdir", str(tmp_path / "made")]])
    assert said in answer["msg"]
    assert not (tmp_path / "made").exists()


def test_a_program_that_asks_gets_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "failed" in make(capsys, tmp_path / "gone", [["sh", "-c", "read answer"]])["msg"]


def test_info_tells_a_missing_device_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    args = {"devices": [str(tmp_path / "file"), str(tmp_path / "gone")], "path": str(tmp_path)}
    with patch_module_args(args), pytest.raises(SystemExit):
        scratch_info.main()
    found = json.loads(capsys.readouterr().out)["scratch"]
    assert [item["kind"] for item in found["devices"]] == ["other", "missing"]
    assert (found["place"], found["entries"], found["mount"]) == ("directory", ["file"], None)


def test_ids_that_a_human_reads_come_first(tmp_path: Path) -> None:
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
