"""`busbar fabric` as users call it."""

from __future__ import annotations

import json

import pytest
from busbar.cli import main


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--nodes", "4"], []),
        (["--nodes", "2", "--slow", "node0001"], ["node0001"]),
        (["--nodes", "8", "--slow", "node0001,node0004"], ["node0001", "node0004"]),
        (["--nodes", "64", "--slow", "node0001", "--slow", "node0004"], ["node0001", "node0004"]),
    ],
)
def test_simulate(options: list[str], found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fabric", "simulate", *options, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["found"], answer["missed"], answer["wrongly_blamed"]) == (found, [], [])
    assert answer["rounds"] > 0
    assert answer["tests"] >= answer["rounds"]
    assert main(["fabric", "simulate", *options]) == 0
    assert f"found: {', '.join(found) or 'none'}\n" in capsys.readouterr().out


def test_trials(capsys: pytest.CaptureFixture[str]) -> None:
    call = ["fabric", "trials", "--trials", "12", "--seed", "3"]
    assert main(call) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].replace(" ", "").startswith("|left|noise|trials|faults|found|suspected|missed|innocentsblamed|")
    assert len(lines) == 2 + 25 + 1 + 1
    assert lines[-2].split("|")[3].strip() == "12"
    assert main([*call, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["trials"] for row in rows) == 12
    assert all(row["faults"] == row["found"] + row["suspected"] + row["missed"] for row in rows)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["simulate", "--nodes", "0"], "--nodes: '0' is not a whole number"),
        (["simulate", "--nodes", "-4"], "--nodes: '-4' is not a whole number"),
        (["simulate", "--nodes", "many"], "--nodes: 'many' is not a whole number"),
        (["simulate", "--nodes", "4", "--slow", "gpu1"], "--slow: there is no node 'gpu1'"),
        (["simulate", "--nodes", "4", "--slow", "node0001", "--slow", ","], "--slow: ',' names nothing"),
        (["trials", "--seed", "x"], "--seed: 'x' is not a whole number"),
        (["trials", "--trials", "0"], "--trials: '0' is not a whole number"),
    ],
)
def test_bad_input(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fabric", *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
