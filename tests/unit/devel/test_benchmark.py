"""scripts/benchmark, on a small scale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from devel import benchmark
from devel.benchmarks import controller, parser
from devel.measured import Figure, Goal, growth

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

SCRIPT = Path(__file__).parents[3] / "scripts" / "benchmark"


@pytest.fixture(autouse=True)
def _search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the script sets for the processes that a benchmark starts."""
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT.parent))


def _figures(text: str) -> dict[str, float]:
    result = json.loads(text)
    assert result.keys() == {"benchmark", "figures"}
    return {entry["figure"]: entry["value"] for entry in result["figures"]}


def test_parser_reads_the_whole_table_in_little_memory() -> None:
    result = subprocess.run(
        [SCRIPT, "parser", "--mib", "6", "--runs", "1", "--json"], capture_output=True, text=True, check=True
    )
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


def test_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["search", "--json", "--nodes", "64,256", "--trials", "3", "--runs", "1"]) == 0
    entries = json.loads(capsys.readouterr().out)["figures"]
    found = {(entry["figure"], entry["at"]): entry["value"] for entry in entries}
    assert found["round_robin_rounds", 256] == 255
    assert found["all_pairs_tests", 64] == 2016
    assert 1 < found["rounds", 256] < 60
    assert found["tests", 256] < found["all_pairs_tests", 256] / 10


@pytest.mark.parametrize("playbook", controller.PLAYBOOKS)
def test_controller(capsys: pytest.CaptureFixture[str], playbook: str) -> None:
    assert benchmark.main(["controller", "--json", "--hosts", "4", "--runs", "1", "--playbook", playbook]) == 0
    figures = _figures(capsys.readouterr().out)
    assert figures.keys() == {"cpu", "wall", "cpu_per_host", "peak_memory"}
    assert figures["cpu"] > 0.5
    assert figures["peak_memory"] > 50


def test_controller_with_several_forks(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["controller", "--json", "--hosts", "3", "--runs", "1", "--forks", "1,4"]) == 0
    figures = _figures(capsys.readouterr().out)
    assert {name for name in figures if name.startswith("wall")} == {"wall_forks_1", "wall_forks_4"}


def test_a_host_that_is_not_sound_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "inventory", lambda _size: {"all": {"hosts": {"gpu 1": {"hardware": "dgx_h1000"}}}})
    assert benchmark.main(["controller", "--hosts", "3", "--runs", "1"]) == 1
    assert "preflight on 3 hosts ended with code" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--list"]])
def test_without_a_name_it_lists_them(options: list[str]) -> None:
    result = subprocess.run([SCRIPT, *options], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(benchmark.NAMES)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["speed"], "there is no benchmark 'speed'; there are controller, noop, "),
        (["controller", "--hosts", "16,2"], "--hosts: '2' is not a whole number from 3 to 10000"),
        (["noop", "--sizes", "4,2"], "--sizes: 4,2: give sizes, each larger than the one before, such as 2,4,8,16"),
        (["provision", "--compute", "1"], "--compute: '1' is not a whole number from 2 to 200"),
        (["controller", "--forks", "0"], "--forks: '0' is not a whole number from 1 to 1000"),
        (["controller", "--hosts", "16,16"], "--hosts: '16,16' names a number twice"),
        (["controller", "--playbook", "all"], "--playbook: 'all' is none of preflight, base, authorities"),
        (["parser", "--runs", "0"], "--runs: '0' is not a whole number from 1 to 99"),
        (["parser", "--mib", "0"], "--mib: '0' is not a whole number from 1"),
        (["parser", "--mib", "1GB"], "--mib: '1GB' is not a whole number"),
        (["search", "--nodes", "64,64"], "--nodes: '64,64' names a number twice"),
        (["search", "--nodes", "8"], "--nodes: '8' is not a whole number from 16"),
    ],
)
def test_bad_input(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(options) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


class _Ticks:
    """A benchmark whose runs take 3, 1 and 2 seconds."""

    GOALS = (Goal("wall", "<=", 1.5), Goal("wall", "<=", 30, at=20))

    def __init__(self) -> None:
        self.seconds = iter([3, 1, 2])

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--hosts", default="10")

    def measure(self, _args: object) -> Iterator[Figure]:
        took = next(self.seconds)
        yield Figure("wall", took, "s")
        yield from (Figure("wall", took * size, "s", at=size) for size in (10, 20))


@pytest.fixture(name="ticks")
def _ticks(monkeypatch: pytest.MonkeyPatch) -> _Ticks:
    ticks = _Ticks()
    monkeypatch.setitem(benchmark.NAMES, "ticks", "ticks")
    monkeypatch.setitem(sys.modules, "devel.benchmarks.ticks", ticks)
    return ticks


@pytest.mark.usefixtures("ticks")
def test_a_result_is_the_median_beside_the_goal(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["ticks", "--hosts", "20", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["benchmark"] == "ticks"
    first, second, third = result["figures"]
    assert first == {"figure": "wall", "value": 2, "unit": "s", "runs": [3, 1, 2], "goal": "<= 1.5", "met": False}
    assert second == {"figure": "wall", "value": 20, "unit": "s", "at": 10, "runs": [30, 10, 20]}
    assert (third["value"], third["met"]) == (40, False)


@pytest.mark.usefixtures("ticks")
def test_text_tells_spread_and_goal(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["ticks"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "wall 2 s 1 to 3 goal <= 1.5: missed",
        "wall 10 20 s 10 to 30",
        "wall 20 40 s 20 to 60 goal <= 30: missed",
    ]


def test_growth() -> None:
    assert growth({16: 1.0, 64: 99.0, 1024: 64.0}) == 1
    assert growth({10: 1.0, 100: 100.0}) == 2
