"""Tests of resuming nodes that busbar drained, with fake Slurm commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import slurm_drain
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

OWN = "busbar: update"


@pytest.fixture
def resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - a function
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm_drain, "BETWEEN_LOOKS_S", 0.01)
    monkeypatch.setattr(slurm_drain, "ANSWER_S", 0)
    for name, text in {
        "sinfo": 'cat "$0.answer"',
        "scontrol": 'echo "$*" >>"$0.asked"; mv "${0%scontrol}after" "${0%scontrol}sinfo.answer"',
    }.items():
        executable(tmp_path / name, f"#!/bin/sh\n{text}\n")

    def call(before: str, after: str = "", **arguments: object) -> tuple[dict[str, Any], str]:
        (tmp_path / "sinfo.answer").write_text(before)
        (tmp_path / "after").write_text(after)
        given = {"nodes": ["gpu1", "gpu2"], "reason": OWN, "state": "resumed", **arguments}
        with patch_module_args(given), pytest.raises(SystemExit):
            slurm_drain.main()
        asked = tmp_path / "scontrol.asked"
        return dict(json.loads(capsys.readouterr().out)), asked.read_text() if asked.exists() else ""

    return call


def test_own_drains_are_resumed_in_one_step(resume: Any) -> None:  # noqa: ANN401
    done, asked = resume(
        f"gpu1|drained|{OWN}\ngpu2|down|Node unexpectedly rebooted\n", "gpu1|idle|none\ngpu2|idle|none\n"
    )
    assert (done["resumed"], done["left"], asked) == (
        ["gpu1", "gpu2"],
        {},
        "update NodeName=gpu1,gpu2 State=RESUME\n",
    )


def test_foreign_drain_and_unresponsive_node_are_left_unchanged(resume: Any) -> None:  # noqa: ANN401
    done, asked = resume(f"gpu1|drained|fan, Meyer\ngpu2|drained*|{OWN}\n")
    assert (done["changed"], asked) == (False, "")
    assert done["left"] == {
        "gpu1": "drained: fan, Meyer, left unchanged",
        "gpu2": "slurmd did not answer within 0 s",
    }


def test_node_still_drained_after_resume_is_reported(resume: Any) -> None:  # noqa: ANN401
    before = f"gpu1|drained|{OWN}\ngpu2|idle|none\n"
    done, _ = resume(before, "gpu1|drained|prolog failed\ngpu2|idle|none\n")
    assert (done["resumed"], done["left"]) == ([], {"gpu1": "drained after resuming: prolog failed"})
    assert resume(before, _ansible_check_mode=True)[0]["resumed"] == ["gpu1"]
