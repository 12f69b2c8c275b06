"""`busbar fabric trials` as users call it."""

from __future__ import annotations

import json

import pytest
from busbar.cli import main

CALL = ["fabric", "trials", "--nodes", "16-64", "--trials", "12", "--left", "50,87", "--noise", "1,5"]


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(CALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].replace(" ", "").startswith("|left|noise|trials|faults|found|suspected|missed|innocentsblamed|")
    assert len(lines) == 2 + 4 + 1
    assert lines[-1].split("|")[3].strip() == "12"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["left"], row["noise"]) for row in rows] == [(0.5, 0.01), (0.5, 0.05), (0.87, 0.01), (0.87, 0.05)]
    assert all(row["faults"] == row["found"] + row["suspected"] + row["missed"] for row in rows)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "64-16"], "--nodes: '64-16' ends before it begins"),
        (["--nodes", "1-16"], "--nodes: '1' is not a whole number"),
        (["--left", "50,x"], "--left: 'x' is not a percentage"),
        (["--noise", ""], "--noise: '' is not a percentage"),
        (["--trials", "0"], "--trials: '0' is not a whole number"),
    ],
)
def test_bad_input(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL, *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
