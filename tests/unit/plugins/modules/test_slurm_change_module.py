"""Tests of the module that applies a change of Slurm's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import slurm_change
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

CHANGE = {"before_header": "/etc/slurm/slurm.conf", "before": "ClusterName=c\n", "after": "ClusterName=c\nNodeName=a\n"}
OLD_FILES = [{"path": "/etc/slurm/slurm.conf", "content": "ClusterName=c\n", "state": "present"}]


def asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, command: str
) -> dict[str, Any]:
    """Return the module's result on a host whose slurmctld is in this state."""
    if command:
        executable(folder / "slurmctld", f'#!/bin/sh\n[ "$*" = -V ] || exit 2\n{command}\n')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return module_result(slurm_change, capsys, changes=[CHANGE])


@pytest.mark.parametrize(
    ("release", "action"), [("slurm-wlm 24.11.5", "reconfigure"), ("slurm-wlm 22.05.8", "restart")]
)
def test_installed_release_decides_between_reconfigure_and_restart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str, action: str
) -> None:
    answer = asked(capsys, monkeypatch, tmp_path, f"echo {release}")
    assert (answer["changed"], answer["action"], answer["old_files"]) == (False, action, OLD_FILES)


@pytest.mark.parametrize(
    ("command", "said"), [("echo lost >&2; exit 1", "exited with status 1"), ("echo nothing", "slurmctld -V: ")]
)
def test_old_files_are_returned_even_if_the_release_is_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, said: str
) -> None:
    answer = asked(capsys, monkeypatch, tmp_path, command)
    assert answer["failed"]
    assert said in answer["msg"]
    assert (answer["old_files"], len(answer["since"])) == (OLD_FILES, len("2026-01-01 00:00:00"))
