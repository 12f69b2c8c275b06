"""Processes that keep a user from being removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.user_processes import runs_slurmctld, user_processes

if TYPE_CHECKING:
    from pathlib import Path


BOB = "2002 2002 2002 2002"


def process(folder: Path, command: str, uids: str = BOB, *, state: str = "S", cgroup: str = "0::/init") -> None:
    folder.mkdir()
    uids = uids.replace(" ", "\t")
    (folder / "comm").write_text(f"{command}\n")
    (folder / "status").write_text(f"Name:\t{command}\nState:\t{state} (x)\nUid:\t{uids}\n")
    (folder / "cgroup").write_text(f"{cgroup}\n")


@pytest.mark.parametrize(
    ("told", "cgroup", "says"),
    [
        (("sleep", "2002 2002 2002 2002", "S"), "0::/x/job_11/step_batch/user/task_0", "process 7 (sleep, job 11)"),
        (("bash", "2002 2002 2002 2002", "R"), "0::/user.slice", "process 7 (bash)"),
        (("sudo", "0 0 2002 0", "S"), "0::/", "process 7 (sudo)"),
        (("e\x1b[2Jvil", "2002 0 0 0", "S"), "0::/", "process 7 (e?[2Jvil)"),
        (("gone", "2002 2002 2002 2002", "Z"), "0::/", ""),
        (("other", "2003 2003 2003 2003", "S"), "0::/", ""),
        (("longer", "20021 20021 20021 20021", "S"), "0::/", ""),
    ],
)
def test_what_a_user_runs(tmp_path: Path, told: tuple[str, str, str], cgroup: str, says: str) -> None:
    process(tmp_path / "7", *told[:2], state=told[2], cgroup=cgroup)
    assert user_processes({"bob": 2002, "carol": 2009}, tmp_path) == ({"bob": [says]} if says else {})


def test_a_process_that_ends_meanwhile_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "8").mkdir()
    assert user_processes({"bob": 2002}, tmp_path) == {}


def test_many_processes_make_a_short_list(tmp_path: Path) -> None:
    for pid in range(1, 11):
        process(tmp_path / str(pid), "x")
    found = user_processes({"bob": 2002}, tmp_path)["bob"]
    assert found[0] == "process 1 (x)"
    assert found[-1] == "6 more processes"
    assert len(found) == 5


def test_slurmctld_is_recognised(tmp_path: Path) -> None:
    assert not runs_slurmctld(tmp_path)
    process(tmp_path / "9", "slurmctld", "64030 64030 64030 64030")
    assert runs_slurmctld(tmp_path)
