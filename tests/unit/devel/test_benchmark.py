"""Tests of scripts/benchmark with small input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from devel import benchmark
from devel.benchmarks import controller, parser

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[3] / "scripts" / "benchmark"


@pytest.fixture(autouse=True)
def _search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set PYTHONPATH as the script does for the processes of a benchmark."""
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT.parent))


def _figures(text: str) -> dict[str, float]:
    result = json.loads(text)
    assert result.keys() == {"benchmark", "figures"}
    return {entry["figure"]: entry["value"] for entry in result["figures"]}


def test_parser_reads_the_complete_table_with_bounded_memory() -> None:
    result = subprocess.run(
        [SCRIPT, "parser", "--mib", "6", "--runs", "1", "--json"], capture_output=True, text=True, check=True
    )
    figures = _figures(result.stdout)
    assert figures["size"] >= 6 * 1.048
    assert figures["rows"] == 31
    assert figures["throughput"] > 0
    # The limit covers an interpreter with the parser; memory must not grow with the size of the log.
    assert 0 < figures["peak_memory"] < 64


def test_table_with_a_missing_row_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"".join(parser._log(1 << 20))  # noqa: SLF001 - the test cuts it
    cut = log.replace(b"\n            64 ", b"\nlost ")
    assert cut != log
    monkeypatch.setattr(parser, "_log", lambda _size: [cut])
    assert benchmark.main(["parser", "--mib", "1"]) == 1
    assert "the table is incomplete" in capsys.readouterr().err


def test_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["search", "--json", "--nodes", "64,256", "--trials", "3", "--runs", "1"]) == 0
    entries = json.loads(capsys.readouterr().out)["figures"]
    found = {(entry["figure"], entry["at"]): entry["value"] for entry in entries}
    assert found["round_robin_rounds", 256] == 255
    assert found["all_pairs_tests", 64] == 2016
    assert 1 < found["rounds", 256] < 60
    assert found["tests", 256] < found["all_pairs_tests", 256] / 10


@pytest.mark.parametrize("playbook", list(controller.PLAYBOOKS)[:1])
def test_controller(capsys: pytest.CaptureFixture[str], playbook: str) -> None:
    assert benchmark.main(["controller", "--json", "--hosts", "4", "--runs", "1", "--playbook", playbook]) == 0
    figures = _figures(capsys.readouterr().out)
    assert figures.keys() == {"cpu", "wall", "cpu_per_host", "peak_memory"}
    assert figures["cpu"] > 0.5
    assert figures["peak_memory"] > 50


def test_failed_playbook_has_no_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "play.yml").write_text("- hosts: ctl\n  gather_facts: false\n  tasks: [{fail: {msg: broken}}]\n")
    monkeypatch.setitem(controller.PLAYBOOKS, "preflight", str(tmp_path / "play.yml"))
    assert benchmark.main(["controller", "--hosts", "3", "--runs", "1"]) == 1
    said = capsys.readouterr()
    assert "preflight on 3 hosts failed with exit code 2: " in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["speed"], "benchmark 'speed' does not exist; available: controller, noop, "),
        (["controller", "--hosts", "16,2"], "--hosts: '2' is not a whole number from 3 to 10000"),
        (["noop", "--sizes", "4,2"], "--sizes: 4,2: use sizes in ascending order, such as 2,4,8,16"),
        (["provision", "--compute", "1"], "--compute: '1' is not a whole number from 2 to 200"),
        (["controller", "--forks", "0"], "--forks: '0' is not a whole number from 1 to 1000"),
        (["controller", "--hosts", "16,16"], "--hosts: '16,16' contains a duplicate"),
        (["controller", "--playbook", "all"], "--playbook: 'all' is not one of preflight, base, authorities"),
        (["parser", "--runs", "0"], "--runs: '0' is not a whole number from 1 to 99"),
        (["parser", "--mib", "0"], "--mib: '0' is not a whole number from 1"),
        (["parser", "--mib", "1GB"], "--mib: '1GB' is not a whole number"),
        (["search", "--nodes", "64,64"], "--nodes: '64,64' contains a duplicate"),
        (["search", "--nodes", "8"], "--nodes: '8' is not a whole number from 16"),
    ],
)
def test_bad_input(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(options) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
