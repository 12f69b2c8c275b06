"""Tests of the module that checks a node and chooses its repair."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.modules import node_repair
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

NODE = {"reason": "busbar health: GPU 2 is lost", "severity": "", "repairs": 0, "goes_on": False}
FOUND = {"findings": [{"check": "gpu", "severity": "RESET"}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a node with a note and a fake health check."""
    (tmp_path / "note").write_text("RESET\nbusbar health: GPU 2 is lost\n")
    program = tmp_path / "check"
    executable(program, f"#!/bin/sh\n[ \"$*\" = '--look --json' ] || exit 2\necho '{json.dumps(FOUND)}'\nexit 1\n")
    return tmp_path


def chosen(capsys: pytest.CaptureFixture[str], folder: Path, **options: object) -> tuple[bool, str, str]:
    given = {"node": NODE, "note": f"{folder}/note", "program": f"{folder}/check", "allowed": "reboot", "limit": 2}
    answer = module_result(node_repair, capsys, choose=given | options)
    return answer["changed"], answer["do"], answer["why"]


def test_note_and_findings_decide(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    assert chosen(capsys, folder)[:2] == (False, "reset")
    assert chosen(capsys, folder, node={**NODE, "repairs": 2})[1] == "isolate"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_note_decides_without_a_health_check(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "check").unlink()
    assert chosen(capsys, folder)[1] == "reboot"
    (folder / "note").unlink()
    assert chosen(capsys, folder) == (False, "skip", "the health check recorded no severity for the drain")


def test_plan_reads_slurm_and_the_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, text in {"sinfo": "gpu1|drained|busbar health: GPU 2 is lost", "squeue": ""}.items():
        executable(tmp_path / name, f"#!/bin/sh\necho '{text}'\n")
    monkeypatch.setattr(node_repair, "HISTORY", tmp_path / "repairs.jsonl")
    record = {"node": "gpu1", "event": "began", "how": "reboot", "reason": "busbar health: GPU 2 is lost"}
    asked = {"requested": "gpu[1-1]", "compute": ["gpu1"], "limited": ["gpu1"]}
    given = ({"records": [record]}, {"plan": asked}, {"plan": {**asked, "requested": "gpu[1"}})
    answers = [module_result(node_repair, capsys, **arguments) for arguments in given]
    assert answers[0]["changed"]
    assert (answers[1]["plan"]["nodes"]["gpu1"]["repairs"], answers[1]["changed"]) == (1, False)
    assert "repair_nodes" in answers[2]["plan"]["problems"][0]
