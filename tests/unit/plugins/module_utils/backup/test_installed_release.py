"""Tests of reading the Slurm release of a host from any of its installed programs."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup import programs


@pytest.mark.parametrize(
    ("answers", "release"),
    [
        pytest.param({"scontrol": "slurm-wlm 24.11.5", "slurmdbd": ""}, "24.11.5", id="a controller"),
        pytest.param({"scontrol": "", "slurmdbd": "slurm-wlm 24.11.5"}, "24.11.5", id="a slurmdbd alone"),
        pytest.param({"scontrol": "", "slurmdbd": ""}, "", id="none"),
    ],
)
def test_release(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str], release: str) -> None:
    monkeypatch.setattr(programs, "output_or_empty", lambda command: answers[command[0]])
    assert programs.installed_release() == release
