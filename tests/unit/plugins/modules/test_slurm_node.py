"""The module that reads the state of nodes from Slurm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import slurm_node

if TYPE_CHECKING:
    from pathlib import Path


def answering(folder: Path, name: str, lines: str, status: int = 0) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat <<END\n{lines}\nEND\nexit {status}\n")
    program.chmod(0o755)


def test_nodes_that_are_not_ready(
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
    with patch_module_args(options), pytest.raises(SystemExit):
        slurm_node.main()
    return dict(json.loads(capsys.readouterr().out))
