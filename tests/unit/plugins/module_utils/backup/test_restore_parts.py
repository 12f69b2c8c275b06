"""Tests that a restore refuses newer state and moves existing data aside."""

from __future__ import annotations

import getpass
import re
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup.restore_parts import (
    compare_rows,
    place_files,
    release_problem,
)
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import BackupError

if TYPE_CHECKING:
    from pathlib import Path


def test_existing_data_is_moved_aside(tmp_path: Path) -> None:
    source, target = tmp_path / "saved", tmp_path / "slurmctld"
    for folder, text in ((source, "saved"), (target, "present")):
        (folder / "hash.3").mkdir(parents=True)
        (folder / "job_state").write_text(text)
    # Left by an interrupted restore.
    (tmp_path / "slurmctld.restoring").mkdir()
    aside = place_files(source, target, getpass.getuser(), "20261123T023000")
    assert aside == f"{target}.before-20261123T023000"
    assert (target / "job_state").read_text() == "saved"
    assert (tmp_path / "slurmctld.before-20261123T023000" / "job_state").read_text() == "present"
    assert target.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "saved",
        "slurmctld",
        "slurmctld.before-20261123T023000",
    ]


def test_a_new_machine_has_nothing_to_move(tmp_path: Path) -> None:
    (tmp_path / "saved").write_text("dashboards")
    assert place_files(tmp_path / "saved", tmp_path / "lib" / "grafana.db", getpass.getuser(), "now") == ""
    assert (tmp_path / "lib" / "grafana.db").read_text() == "dashboards"


def test_missing_owner_prevents_the_restore(tmp_path: Path) -> None:
    (tmp_path / "saved").write_text("new")
    (tmp_path / "grafana.db").write_text("old")
    with pytest.raises(BackupError, match=r"grafana\.db cannot be written"):
        place_files(tmp_path / "saved", tmp_path / "grafana.db", "no-such-user", "now")
    assert (tmp_path / "grafana.db").read_text() == "old"


def test_differing_row_counts_are_reported() -> None:
    compare_rows({"job_table": 3}, {"job_table": 3})
    with pytest.raises(BackupError, match="job_table: 2 instead of 3, user_table: missing instead of 1"):
        compare_rows({"job_table": 2}, {"job_table": 3, "user_table": 1})


@pytest.mark.parametrize(
    ("saved", "installed", "offered", "said"),
    [
        ("", "", "", ""),
        ("24.11.5", "24.11.1", "", ""),
        ("24.11.5", "", "24.11.5", ""),
        ("23.11.4", "24.11.5", "", ""),
        (
            "24.11.5",
            "22.05.8",
            "26.05.5",
            "Slurm 24.11.5 wrote the state, but 22.05.8 is installed here: install 24.11.5",
        ),
        ("24.11.5", "", "22.05.8", "22.05.8 is offered here"),
        ("24.11.5", "", "", "cannot determine the Slurm version"),
    ],
)
def test_state_of_a_newer_release_is_refused(saved: str, installed: str, offered: str, said: str) -> None:
    found = release_problem(saved, installed, offered)
    assert re.search(said, found) if said else found == ""


def test_state_too_old_for_the_new_release_is_refused() -> None:
    said = release_problem("22.05.8", "", "26.05.5")
    assert (
        "Slurm 22.05.8 wrote the state, but 26.05.5 is offered here, which only reads state of 25.11, 25.05, 24.11"
        in said
    )
    assert "restore it with 23.11 first" in said
    assert release_problem("24.11.5", "26.05.5", "") == ""
