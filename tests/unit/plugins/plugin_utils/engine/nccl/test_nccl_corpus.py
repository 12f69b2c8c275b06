"""Tests of the parser on published outputs, which lie in a folder next to the checkout and are not copied."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from recording_checker import check_recordings

CORPUS = Path(__file__).parents[7] / "shared" / "nccl" / "corpus"
INDEX = CORPUS / "index.json"
ENTRIES: list[dict[str, Any]] = json.loads(INDEX.read_text()) if INDEX.is_file() else []
LINE = re.compile(r"(?:Rank +\d+.* device )|(?:^\D{0,20}\d+ +\d+ +float )|(?:Out of bounds values)")

pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"no published outputs in {CORPUS}")


def _largest(run: dict[str, Any]) -> dict[str, Any] | None:
    rows = [row for row in run["rows"] if row["out_of_place"] or row["in_place"]]
    return max(enumerate(rows), key=lambda pair: (pair[1]["size"], pair[0]))[1] if rows else None


def _busbw(row: dict[str, Any] | None, half: str) -> float | None:
    return (row[half] or {}).get("busbw") if row else None


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["file"] for entry in ENTRIES])
def test_published_output_is_parsed(entry: dict[str, Any]) -> None:
    runs = parse_text((CORPUS / entry["file"]).read_text(errors="replace"))["runs"]
    assert len(runs) == len(entry["runs"])
    for run, wanted in zip(runs, entry["runs"]):
        row = _largest(run)
        assert run["outcome"] == wanted["outcome"]
        assert len(run["rows"]) == wanted["rows"]
        assert (row["size"] if row else None) == wanted["max_message_size"]
        assert _busbw(row, "out_of_place") == pytest.approx(wanted["oop_busbw_at_max"])
        assert _busbw(row, "in_place") == pytest.approx(wanted["ip_busbw_at_max"])
        assert run["avg_busbw"] == pytest.approx(wanted["reported_avg_busbw"])
        assert run["out_of_bounds"] == wanted["out_of_bounds_count"]
        if wanted["n_ranks_basis"] == "rank lines":
            assert run["ranks"] == wanted["n_ranks"]


def test_the_corpus_checker_accepts_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = check_recordings(CORPUS.parent / "check_corpus.py", "nccl parse --format json", monkeypatch)
    assert code == 0, said
    assert ", 0 failed" in said


def _mutable(entry: dict[str, Any]) -> bool:
    """Return whether a lost line is detectable: one complete run of over two ranks, with rank lines and a footer."""
    run = entry["runs"][0]
    whole = len(entry["runs"]) == 1 and run["outcome"] == "ok" and run["n_ranks_basis"] == "rank lines"
    return whole and run["n_ranks"] > 2 and entry["bytes"] < 100_000


@pytest.mark.parametrize("entry", [e for e in ENTRIES if _mutable(e)], ids=lambda entry: str(entry["file"]))
def test_output_with_a_lost_line_is_not_ok(entry: dict[str, Any]) -> None:
    lines = (CORPUS / entry["file"]).read_text(errors="replace").split("\n")
    parts = [number for number, line in enumerate(lines) if LINE.search(line)]
    chosen = random.Random(entry["file"]).sample(parts, min(12, len(parts)))  # noqa: S311 - the same in each run
    for number in chosen:
        runs = parse_text("\n".join(lines[:number] + lines[number + 1 :]))["runs"]
        assert any(run["outcome"] != "ok" for run in runs), lines[number]
