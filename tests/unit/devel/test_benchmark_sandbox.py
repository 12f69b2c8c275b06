"""Tests of the benchmarks that create sandboxes: their commands, their refusals, and their cleanup."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from devel import benchmark, benchmark_sandbox

if TYPE_CHECKING:
    from pathlib import Path


def _recap(nodes: int, tasks: int, changed: int = 0) -> str:
    old = "".join(f"gpu{number}   : ok={tasks - 1}    changed=0\n" for number in range(2, nodes + 1))
    return f"PLAY RECAP ****\ngpu1    : ok={tasks}   changed={changed}\n{old}gpu{nodes + 1} : ok=200  changed=0\n"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """Return the commands of the benchmarks; an existing node has ten more tasks in a cluster of five than of two."""
    commands: list[tuple[str, ...]] = []

    def run(*words: str) -> str:
        commands.append(words)
        size = int(next(each for each in reversed(commands) if each[:2] == ("sandbox", "up"))[-1])
        return _recap(size - 1, 12 if size == 3 else 22)

    monkeypatch.setattr(benchmark_sandbox, "busbar", run)
    monkeypatch.setattr(benchmark_sandbox, "sandbox_path", lambda name: tmp_path / name)
    monkeypatch.setattr(subprocess, "run", lambda command, **_how: commands.append(tuple(command[1:])))
    return commands


def test_second_run_with_changes_fails(
    said: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark_sandbox, "busbar", lambda *_words: _recap(2, 9, changed=3))
    assert benchmark.main(["noop", "--sizes", "2", "--runs", "1"]) == 1
    assert "the second run with 2 nodes was not idempotent on gpu1" in capsys.readouterr().err
    assert said == [("sandbox", "down", "--name", "benchmark")]


@pytest.mark.parametrize("name", ["noop", "provision"])
def test_an_existing_sandbox_is_not_measured_or_removed(
    name: str, said: list[tuple[str, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    assert benchmark.main([name, "--name", "mine"]) == 2
    assert "sandbox mine already exists" in capsys.readouterr().err
    assert said == []
