"""The message for a daemon of Slurm that does not start."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from executables import executable
from templates import worked_out

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLE = Path(__file__).resolve().parents[4] / "roles/slurm"
_, READ, REPORT = yaml.safe_load((ROLE / "tasks/diagnose_failed_start.yml").read_text())
LOG = "slurmd: slurmd version 24.11.5 started\nslurmd: error: cannot create cgroup\n"


def said(tmp_path: Path, state: str, **variables: str) -> str:
    """Return the message for a unit in a load state, with the daemon's log."""
    shown = f'case "$*" in *LoadState*) echo {state};; *) echo 0123;; esac'
    executable(tmp_path / "systemctl", f"#!/bin/sh\n{shown}\n")
    executable(tmp_path / "journalctl", f"#!/bin/sh\nprintf '{LOG}'\n")
    given: Mapping[str, object] = {"__slurm_daemon": "slurmd", "inventory_hostname": "gpu1", **variables}
    command = worked_out(READ["ansible.builtin.shell"]["cmd"], **given)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=True)
    journal = {"stdout_lines": done.stdout.splitlines()}
    return str(worked_out(REPORT["ansible.builtin.fail"]["msg"], **given, **REPORT["vars"], __slurm_journal=journal))


@pytest.mark.parametrize("hint", [{}, {"__slurm_hint": "A new node needs the controllers"}])
def test_a_masked_unit_is_named_instead_of_its_last_log(tmp_path: Path, hint: dict[str, str]) -> None:
    expected = "slurmd does not start on gpu1: its unit is masked. If it may run again: systemctl unmask slurmd"
    assert said(tmp_path, "masked", **hint) == expected


def test_the_errors_of_the_log_are_reported(tmp_path: Path) -> None:
    text = said(tmp_path, "loaded")
    assert text.startswith("slurmd does not start on gpu1: slurmd: error: cannot create cgroup. Check the log")
