"""Tests that published outputs with one damage do not pass; the outputs lie in a folder next to the checkout.

BUSBAR_TEST_DAMAGES sets the number of damages (scripts/test full sets 10,000).
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import (
    PASS,
    Expected,
    Judged,
    judge,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

CORPUS = Path(__file__).parents[7] / "shared" / "nccl" / "corpus"
INDEX = CORPUS / "index.json"
ENTRIES: list[dict[str, Any]] = json.loads(INDEX.read_text()) if INDEX.is_file() else []
DAMAGES = int(os.environ.get("BUSBAR_TEST_DAMAGES", "250"))
ROW = re.compile(r"(?<![\d.])(\d+)\s+(\d+)\s+(?:float|half|double|u?int\d+|u?int|bfloat16)(?=\s)")
RANK = re.compile(r"Rank +(\d+) .* on +(\S+) +device ")
ODD = ["nan", "inf", "-inf", "-1", "-nan(ind)", "0x1F", "", "-", "?", "nan(0x8)", "1,5"]
OPERATORS = {"sum", "prod", "min", "max", "avg", "none"}
# Line prefixes of launchers and log collectors.
LABELS = ["", "", "0: ", "[0] ", "[1,0]<stdout>:", "2026-03-13T22:26:02.5Z ", "gpu1: ", "1773440762 "]
HALF = 4
# Two times or bandwidths are distinguishable if algbw has two digits or more.
TELLING_GBS = 0.2

pytestmark = pytest.mark.skipif(not ENTRIES, reason=f"no published outputs in {CORPUS}")


class Cell(NamedTuple):
    """A cell of a row: its line, its position there, its text, and its index within its half (0 is the time)."""

    line: int
    begin: int
    end: int
    text: str
    place: int


class Output(NamedTuple):
    """A published output that passes without damage."""

    name: str
    lines: list[str]
    asked: Expected
    halves: list[tuple[int, list[Cell]]]
    biggest: int
    parts: list[int]


class Damage(NamedTuple):
    """An output after one damage."""

    output: Output
    lines: list[str]
    what: str

    def __repr__(self) -> str:
        """Return a description of the damage; the output itself is too long to show."""
        return self.what


def _halves(lines: list[str]) -> list[tuple[int, list[Cell]]]:
    """Return the size and the cells of each half of a row."""
    found = []
    for number, line in enumerate(lines):
        match = ROW.search(line)
        if match is None:
            continue
        tokens = list(re.finditer(r"\S+", line[match.end() :]))
        if tokens and tokens[0].group() in OPERATORS:
            tokens.pop(0)
        if len(tokens) % HALF == 1 and re.fullmatch(r"-?\d+", tokens[0].group()):
            tokens.pop(0)
        if len(tokens) not in {HALF, 2 * HALF}:
            continue
        cells = [
            Cell(number, match.end() + token.start(), match.end() + token.end(), token.group(), place % HALF)
            for place, token in enumerate(tokens)
        ]
        found += [(int(match[1]), cells[at : at + HALF]) for at in range(0, len(cells), HALF)]
    return found


def _verdict(lines: list[str], asked: Expected) -> Judged:
    return judge(parse_text("\n".join(lines))["runs"], None, asked)


def _whole(entry: dict[str, Any]) -> bool:
    """Return whether a lost line is detectable: one run of more than two ranks, with rank lines."""
    run = entry["runs"][0]
    return len(entry["runs"]) == 1 and run["n_ranks_basis"] == "rank lines" and run["n_ranks"] > 2


def _is_part(line: str) -> bool:
    return bool(RANK.search(line) or ROW.search(line) or "Out of bounds values" in line)


@cache
def outputs() -> list[Output]:
    """Return the published outputs that pass with a very low floor and are short enough to parse many times."""
    found = []
    for entry in ENTRIES:
        if entry["bytes"] > 100_000:
            continue
        text = (CORPUS / entry["file"]).read_text(errors="replace")
        run = parse_text(text)["runs"][0]
        asked = Expected(
            nodes=run["nodes"] or 1,
            ranks=run["ranks"] or entry["n_ranks"],
            floor=1e-6,
            steady=1e9,
            allow_unchecked=True,
            allow_missing_ranks=True,
        )
        lines = text.split("\n")
        answer = _verdict(lines, asked)
        halves = [(size, cells) for size, cells in _halves(lines) if size > 0]
        if answer["verdict"] == PASS and halves:
            parts = [number for number, line in enumerate(lines) if _is_part(line)] if _whole(entry) else []
            found.append(Output(entry["file"], lines, asked, halves, answer["at_size"] or 0, parts))
    return found


def _put(lines: list[str], cell: Cell, text: str) -> list[str]:
    line = lines[cell.line]
    wide = cell.end - cell.begin
    return [*lines[: cell.line], line[: cell.begin] + text.rjust(wide) + line[cell.end :], *lines[cell.line + 1 :]]


def _telling(cells: list[Cell]) -> bool:
    try:
        return float(cells[1].text) >= TELLING_GBS and float(cells[2].text) > 0
    except ValueError:
        return False


def _times(text: str, factor: float) -> str | None:
    """Return a number times a factor with the same number of decimals, or None if the text does not change."""
    try:
        new = f"{float(text) * factor:.{len(text.partition('.')[2])}f}"
    except ValueError:
        return None
    return new if "e" not in text and abs(float(new) - float(text)) > 0.04 * abs(float(text)) else None


@st.composite
def damaged(draw: st.DrawFn) -> Damage:
    """Draw one output and damage it in one place."""
    output = draw(st.sampled_from(outputs()))
    decisive = [half for half in output.halves if half[0] == output.biggest]
    size, cells = draw(st.sampled_from(decisive if draw(st.booleans()) else output.halves))
    kind = draw(st.sampled_from(["speed", "speed", "odd", "odd", "wrong", "size", "footer", "average", "gone"]))
    lines: list[str] | None = None
    if kind == "speed":
        assume(_telling(cells))
        cell, factor = cells[draw(st.integers(0, 2))], draw(st.sampled_from([10.0, 0.1, 2.0, 0.5, 1.25, 0.8]))
        new = _times(cell.text, factor)
        lines = None if new is None else _put(output.lines, cell, new)
    elif kind == "odd":
        lines = _put(output.lines, cells[draw(st.integers(0, 3))], draw(st.sampled_from(ODD)))
    elif kind == "wrong":
        lines = _put(output.lines, cells[3], draw(st.sampled_from(["472", "1e+03", "99"])))
    elif kind == "size":
        assume(_telling(cells))
        match = ROW.search(output.lines[cells[0].line])
        assert match is not None
        new_size = str(int(size * draw(st.sampled_from([10, 2, 0.5, 0.1]))))
        lines = _put(output.lines, Cell(cells[0].line, match.start(1), match.end(1), match[1], -1), new_size)
    elif kind == "gone":
        assume(bool(output.parts))
        place = draw(st.sampled_from(output.parts))
        lines = [*output.lines[:place], "", *output.lines[place + 1 :]]
    else:
        word = "Out of bounds values" if kind == "footer" else "Avg bus bandwidth"
        places = [number for number, line in enumerate(output.lines) if word in line]
        assume(bool(places))
        place = draw(st.sampled_from(places))
        news = (
            ["3 FAILED", "0 FAILED", "2 OK", "nan OK", "-1 OK", "0x1F OK"] if kind == "footer" else ["nan", "-1", "inf"]
        )
        value = re.search(rf"(?<={word}    : )[\d.]+|(?<={word} : )[\d.]+", output.lines[place])
        if kind == "average" and value is not None and float(value.group()) > TELLING_GBS:
            news.append(f"{float(value.group()) * 1.5:.6g}")
        text = re.sub(rf"({word}\s*:).*", rf"\1 {draw(st.sampled_from(news))}", output.lines[place])
        lines = [*output.lines[:place], text, *output.lines[place + 1 :]]
    assume(lines is not None)
    assert lines is not None
    changed = [new for old, new in zip(output.lines, lines) if old != new]
    assume(bool(changed))
    label = draw(st.sampled_from(LABELS))
    lines = [label + line for line in lines]
    return Damage(output, lines, f"{output.name}: {kind}: {label}{changed[0]}")


@settings(
    max_examples=DAMAGES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(damaged())
def test_no_damaged_output_passes(damage: Damage) -> None:
    assert _verdict(damage.lines, damage.output.asked)["verdict"] != PASS, damage.what


def test_contradiction_is_quoted_with_its_line_number() -> None:
    seen = 0
    for output in outputs():
        size, cells = max(output.halves, key=lambda half: half[0])
        new = _times(cells[0].text, 10) if _telling(cells) else None
        if new is None or len([1 for at, _ in output.halves if at == size]) > 2:
            continue
        answer = _verdict(_put(output.lines, cells[0], new), output.asked)
        assert f"line {cells[0].line + 1}: " in answer["reason"], (output.name, answer["reason"])
        assert new in answer["reason"]
        seen += 1
    assert seen > 40


RECORDED = {
    "without the sign": lambda line: line.replace("#", ""),
    "indented": lambda line: f"    {line.replace('#', '').strip()}",
    "a tab": lambda line: f"\t{line.replace('#', '').strip()}",
    "a blank for it": lambda line: re.sub(r"^(\s*)#", r"\1 ", line),
}


@pytest.mark.parametrize("change", RECORDED.values(), ids=RECORDED)
def test_characters_removed_by_a_recorder_do_not_change_the_result(change: Any) -> None:  # noqa: ANN401 - on a line
    kept = ("outcome", "ranks", "program", "avg_busbw", "out_of_bounds", "rows")
    for entry in ENTRIES:
        text = (CORPUS / entry["file"]).read_text(errors="replace")
        plain, recorded = parse_text(text), parse_text("\n".join(map(change, text.split("\n"))))
        found = [[{key: run[key] for key in kept} for run in data["runs"]] for data in (plain, recorded)]
        assert found[0] == found[1], entry["file"]


def test_rows_and_averages_alone_are_one_run_per_average() -> None:
    for entry in ENTRIES:
        lines = (CORPUS / entry["file"]).read_text(errors="replace").split("\n")
        kept = [line for line in lines if ROW.search(line) or "Avg bus bandwidth" in line]
        averages = sum("Avg bus bandwidth" in line for line in kept)
        if averages and entry["outcome"] == "ok":
            assert len(parse_text("\n".join(kept))["runs"]) == averages, entry["file"]


@pytest.mark.parametrize("name", ["first", "last", "every third"])
def test_output_without_most_rank_lines_is_not_ok(name: str) -> None:
    seen = 0
    for output in outputs():
        places = [number for number, line in enumerate(output.lines) if RANK.search(line)]
        runs = parse_text("\n".join(output.lines))["runs"]
        # An output that begins at its rank lines may have lost only its beginning.
        begins = any("nThread" in line for line in output.lines)
        if len(runs) != 1 or runs[0]["ranks"] != len(places) or len(places) < 4 or not begins:
            continue
        left = {"first": places[:1], "last": places[-1:], "every third": places[::3][: (len(places) - 1) // 2]}[name]
        run = parse_text("\n".join(line for at, line in enumerate(output.lines) if at not in places or at in left))
        # A broadcast has factor 1, so its values do not show whether ranks are missing.
        if name != "first" or "all_reduce" in str(runs[0]["program"]):
            assert run["runs"][0]["outcome"] != "ok", output.name
            seen += 1
    assert seen > 5
