"""Tests of the module that reads the state of nodes from Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.modules import slurm_node
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def answering(folder: Path, name: str, lines: str, status: int = 0) -> None:
    executable(folder / name, f"#!/bin/sh\ncat <<END\n{lines}\nEND\nexit {status}\n")


def test_nodes_that_are_not_ready_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    wanted = ["gpu1", "gpu2"]
    answer = ask(capsys, wanted=wanted)
    assert answer["unready"] == ["gpu1: not a node in Slurm", "gpu2: not a node in Slurm"]
    assert "No such file or directory: b'sinfo'" in answer["fault"]
    answering(tmp_path, "sinfo", "gpu1|idle|root|none\ngpu2|down*|slurm|Not responding")
    answer = ask(capsys, wanted=wanted)
    assert (answer["unready"], answer["fault"]) == (["gpu2: down* (Not responding)"], "")
    answering(tmp_path, "sinfo", "gpu1|idle|root|none\ngpu2|idle|root|none")
    assert ask(capsys, wanted=wanted)["unready"] == []
    answering(tmp_path, "sinfo", "", 1)
    assert ask(capsys, wanted=wanted)["fault"] == "non-zero return code"


def ask(capsys: pytest.CaptureFixture[str], **options: object) -> dict[str, Any]:
    return module_result(slurm_node, capsys, **options)
