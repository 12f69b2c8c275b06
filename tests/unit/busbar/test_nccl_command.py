"""`busbar nccl` from its arguments to its exit code."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from busbar.errors import UsageError
from busbar.nccl_command import register

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nccl"
SEED = Path(__file__).parents[4] / "shared/seeds/001_df0eff65af7a84aa.txt"
WHOLE = str(FIXTURES / "all_reduce_2x8.txt")


def run(*args: str) -> int:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    parsed = parser.parse_args(["nccl", *args])
    return int(parsed.run(parsed))


def test_parse_prints_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("parse", WHOLE, "--format", "json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["runs"][0]["outcome"] == "ok"
    assert run("parse", WHOLE) == 0
    assert "16 ranks on 2 node(s)" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.txt"
    path.write_text(Path(WHOLE).read_text(), encoding=encoding)
    run("parse", str(path), "--format", "json")
    assert json.loads(capsys.readouterr().out)["runs"][0]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("hardware", "nodes", "options", "code", "verdict"),
    [
        ("dgx_h100", "2", [], 0, "PASS"),
        ("dgx_h100", "2", ["--floor", "360"], 1, "FAIL"),
        ("dgx_h100", "4", [], 3, "INCONCLUSIVE"),
        ("abacus", "2", [], 3, "INCONCLUSIVE"),
    ],
)
def test_judge(  # noqa: PLR0913, PLR0917 - a table
    hardware: str, nodes: str, options: list[str], code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("judge", WHOLE, "--hardware", hardware, "--nodes", nodes, "--format", "json", *options) == code
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict


@pytest.mark.parametrize(
    "args",
    [
        ["parse", "/no/such/file"],
        ["parse", "/"],
        ["judge", "/no/such/file", "--hardware", "dgx_h100", "--nodes", "2"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "0"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "two"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "2", "--floor", "nan"],
        ["judge", WHOLE, "--hardware", "dgx_h100", "--nodes", "2", "--catalogue", WHOLE],
    ],
)
def test_bad_input_is_one_line(args: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        run(*args)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n \r\n", "nothing but blanks"),
        (bytes(range(32)) * 8, "is no text"),
        (b"\x7fELF\x02\x01\x01" + bytes(2000), "is no text"),
    ],
)
@pytest.mark.parametrize("command", ["parse", "judge"])
def test_what_is_no_text_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str, command: str) -> None:
    path = tmp_path / "x.out"
    path.write_bytes(content)
    options = ["--hardware", "dgx_h100", "--nodes", "2"] if command == "judge" else []
    with pytest.raises(UsageError) as caught:
        run(command, str(path), *options)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_few_strange_bytes_are_still_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.out"
    path.write_bytes(b"\0\0\0\xff\x1b[1m\n" + Path(WHOLE).read_bytes())
    assert run("parse", str(path), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["outcome"] == "ok"


@pytest.mark.skipif(not SEED.is_file(), reason=f"{SEED} is not here")
@pytest.mark.parametrize(
    ("options", "code", "verdict"),
    [([], 3, "INCONCLUSIVE"), (["--allow-unchecked", "--allow-missing-ranks"], 0, "PASS")],
)
def test_the_published_dgx2h_run(
    options: list[str], code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--hardware", "dgx2", "--nodes", "2", "--format", "json"]
    assert run("judge", str(SEED), *asked, *options) == code
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["measured_busbw"], found["at_size"]) == (verdict, 81.53, 8 << 30)
    assert (found["floor"], found["ceiling"]) == (70, 126.0)
