"""scripts/benchmark, on a small scale."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from devel import benchmark
from devel.benchmarks import parser

SCRIPT = Path(__file__).parents[3] / "scripts" / "benchmark"


@pytest.fixture(autouse=True)
def _search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the script sets for the processes that a benchmark starts."""
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT.parent))


def _figures(text: str) -> dict[str, float]:
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(line.keys() == {"benchmark", "figure", "value", "unit"} for line in lines)
    return {line["figure"]: line["value"] for line in lines}


def test_parser_reads_the_whole_table_in_little_memory() -> None:
    result = subprocess.run([SCRIPT, "parser", "--mib", "6"], capture_output=True, text=True, check=True)
    figures = _figures(result.stdout)
    assert figures["size"] >= 6 * 1.048
    assert figures["rows"] == 31
    assert figures["throughput"] > 0
    # An interpreter with the parser in it; what the log adds must not depend on its size.
    assert 0 < figures["peak_memory"] < 64


def test_a_table_with_a_row_missing_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"".join(parser._log(1 << 20))  # noqa: SLF001 - what is cut
    cut = log.replace(b"\n            64 ", b"\nlost ")
    assert cut != log
    monkeypatch.setattr(parser, "_log", lambda _size: [cut])
    assert benchmark.main(["parser", "--mib", "1"]) == 1
    assert "the table is not complete" in capsys.readouterr().err


def test_locator(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["locator", "--nodes", "96", "--trials", "20", "--faults", "3", "--seed", "5"]) == 0
    figures = _figures(capsys.readouterr().out)
    assert figures["trials"] == 20
    assert figures["rounds_median"] <= figures["rounds_max"] <= 30
    assert figures["found"] > 0
    assert figures["missed"] == figures["wrongly_blamed"] == 0


def test_slurm_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["slurm_metrics", "--nodes", "20", "--jobs", "300"]) == 0
    figures = _figures(capsys.readouterr().out)
    assert figures["series"] > 20 * 7
    assert figures["cpu"] < 10
    assert 5 < figures["peak_memory"] < 200


def test_without_a_name_it_lists_them() -> None:
    result = subprocess.run([SCRIPT], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(benchmark.NAMES)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["speed"], "there is no benchmark 'speed'; there are parser, locator, slurm_metrics"),
        (["parser", "--mib", "0"], "--mib: '0' is not a whole number from 1"),
        (["parser", "--mib", "1GB"], "--mib: '1GB' is not a whole number"),
        (["slurm_metrics", "--jobs", "many"], "--jobs: 'many' is not a whole number"),
        (["locator", "--nodes", "1"], "--nodes: '1' is not a whole number from 2"),
        (["locator", "--trials", "-3"], "--trials: '-3' is not a whole number"),
        (["locator", "--noise", "-1"], "--noise: '-1' is not a percentage"),
        (["locator", "--nodes", "8", "--faults", "3"], "--faults: '3' is not a whole number from 0 to 2"),
    ],
)
def test_bad_input(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(options) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
