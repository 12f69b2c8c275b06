"""The note of a former cluster of databases is set aside on a host that runs alone, and on no other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

TASKS = Path(__file__).resolve().parents[3] / "roles/mariadb/tasks/services.yml"


@pytest.mark.parametrize(
    ("answer", "aside"),
    [("echo 0", True), ("echo 1", False), ("echo no server >&2; exit 1", False)],
    ids=["alone", "in a cluster that is not ours", "no answer"],
)
def test_only_a_host_that_runs_alone_sets_its_note_aside(tmp_path: Path, answer: str, *, aside: bool) -> None:
    (task,) = (each for each in yaml.safe_load(TASKS.read_text()) if "former cluster" in each["name"])
    client = tmp_path / "bin/mariadb"
    client.parent.mkdir()
    client.write_text(f"#!/bin/sh\n{answer}\n")
    client.chmod(0o755)
    data = tmp_path / "data"
    data.mkdir()
    (data / "grastate.dat").write_text("uuid: x\n")
    done = subprocess.run(
        ["sh", "-c", task["ansible.builtin.shell"]["cmd"]],
        check=False,
        cwd=data,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{client.parent}:{os.environ['PATH']}"},
    )
    # A server that does not say is no reason to go on with a note that may be believed later.
    assert done.returncode == (1 if "exit 1" in answer else 0), done.stderr
    assert [path.name for path in data.iterdir()] == ["grastate.dat.former" if aside else "grastate.dat"]
    assert ("aside" in done.stdout) is aside
