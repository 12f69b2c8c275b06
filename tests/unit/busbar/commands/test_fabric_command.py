"""`busbar fabric simulate` as users call it."""

from __future__ import annotations

import json

import pytest
from busbar.cli import main

CALL = ["fabric", "simulate"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--nodes", "4"], []),
        (["--nodes", "2", "--slow", "node0001"], ["node0001"]),
        (["--nodes", "8", "--slow", "node0001,node0004"], ["node0001", "node0004"]),
        (["--nodes", "8", "--slow", "node0001", "--slow", "node0004"], ["node0001", "node0004"]),
        (["--nodes", "8", "--slow-link", "node0005-node0001"], ["node0001-node0005"]),
        (["--nodes", "16", "--bad-uplink", "2"], ["switch02"]),
        (["--nodes", "64", "--bad-uplink", "switch03", "--crash", "node0001"], ["node0001", "switch03"]),
        (["--nodes", "64", "--slow-nic", "node0009", "--noise", "5%", "--seed", "7"], ["node0009"]),
    ],
)
def test_simulate(options: list[str], found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL, *options, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["found"], answer["missed"], answer["wrongly_blamed"]) == (found, [], [])
    assert answer["rounds"] > 0
    assert answer["tests"] >= answer["rounds"]


def test_missed_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL, "--nodes", "8", "--slow", "node0001", "--speed", "95"]) == 1
    assert "missed: node0001" in capsys.readouterr().out


def test_trials(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--nodes", "64", "--random-faults", "2", "--noise", "5", "--trials", "5", "--format", "json"]
    assert main([*CALL, *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["trials"] == 5
    assert answer["failed_seeds"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nodes", "0"], "--nodes: '0' is not a whole number"),
        (["--nodes", "-4"], "--nodes: '-4' is not a whole number"),
        (["--nodes", "many"], "--nodes: 'many' is not a whole number"),
        (["--nodes", "4", "--slow", "gpu1"], "--slow: there is no node 'gpu1'"),
        (["--nodes", "4", "--slow", ""], "--slow: '' names nothing"),
        (["--nodes", "4", "--slow", "node0001", "--slow", ","], "--slow: ',' names nothing"),
        (["--nodes", "4", "--slow-link", ""], "--slow-link: '' names nothing"),
        (["--nodes", "16", "--bad-uplink", ""], "--bad-uplink: '' names nothing"),
        (["--nodes", "4", "--slow-link", "node0001:node0002"], "--slow-link: 'node0001:node0002' is not two nodes"),
        (["--nodes", "4", "--slow-link", "node0001-node0002-node0003"], "there is no node 'node0002-node0003'"),
        (["--nodes", "4", "--speed", "101"], "--speed: '101' is not a percentage"),
        (["--nodes", "4", "--crash", "node0004"], "--crash: there is no node 'node0004'"),
        (["--nodes", "4", "--slow-link", "node0001"], "--slow-link: 'node0001' is not two nodes"),
        (["--nodes", "4", "--slow-link", "node0001-node0001"], "--slow-link: 'node0001-node0001' is not two nodes"),
        (["--nodes", "4", "--slow-link", "node0001-node0009"], "--slow-link: there is no node 'node0009'"),
        (["--nodes", "4", "--bad-uplink", "0"], "--bad-uplink: with one switch"),
        (["--nodes", "16", "--bad-uplink", "9"], "--bad-uplink: there is no switch '9'"),
        (["--nodes", "4", "--noise", "loud"], "--noise: 'loud' is not a percentage"),
        (["--nodes", "4", "--noise", "-5"], "--noise: '-5' is not a percentage"),
        (["--nodes", "4", "--noise", "nan"], "--noise: 'nan' is not a percentage"),
        (["--nodes", "4", "--seed", "x"], "--seed: 'x' is not a whole number"),
        (["--nodes", "4", "--trials", "0"], "--trials: '0' is not a whole number"),
        (["--nodes", "8", "--switch-size", "9"], "--switch-size: '9' is not a whole number"),
        (["--nodes", "8", "--random-faults", "1", "--slow", "node0001"], "--random-faults: cannot be combined"),
    ],
)
def test_bad_input(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALL, *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
