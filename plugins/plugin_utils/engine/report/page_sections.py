# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Arrange the charts, tables and facts of tests in the sections of the page.

A stage with a title has its own section. Other checks are in the section on single nodes, and collectives in the
section on bandwidth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ..common.hostlist import fold_hosts
from ..validation import stage_registry
from ..validation.result_presentation import NONE, Table
from .plotly_figures import chart_figure, curve_figure, matrix_figure
from .report_reader import COLLECTIVE, results_table
from .report_types import ReadTest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..validation.result_presentation import Section
    from ..validation.stage_base import Stage

# Rank of tests without a known stage, after all others.
_LAST = 9
_EMPTY: Section = {"charts": [], "table": None, "note": "", "facts": []}
_CHECKS = ("checks", "Checks of single nodes")
_CURVES = ("curves", "Bandwidth over message size")


def gbs(value: float | None) -> str:
    """Return a bandwidth in GB/s, or a dash if it is None."""
    return NONE if value is None else f"{value:.4g}"


class PlacedChart(TypedDict):
    """A figure of the page: title, number, height in pixels, and whether it is a matrix."""

    title: str
    figure: int
    height: int
    matrix: bool


class PageTable(Table):
    """A table with its CSS class."""

    css: str


class PageTest(ReadTest):
    """A test as a row of the page's table; the anchor is empty if it has no details."""

    who: str
    cells: dict[str, dict[str, Any]]
    anchor: str


class Detail(PageTest):
    """A test with facts; `open` is whether its details are expanded by default."""

    facts: list[tuple[str, str]]
    open: bool


class Block(Detail):
    """A test with all its details."""

    charts: list[PlacedChart]
    tables: list[PageTable]
    note: str


class PageSection(TypedDict):
    """A section of the page."""

    id: str
    title: str
    tests: list[Block]


def rank_of(test: ReadTest) -> int:
    """Return the sort position of a test among those with the same verdict, the most informative first."""
    stage = stage_registry.stage_of(test)
    return stage.rank if stage else _LAST


def sections(tests: list[Detail], keep: Callable[[dict[str, Any]], int]) -> list[PageSection]:
    """Return the sections of the given tests.

    Args:
        tests: tests, the most informative first.
        keep: adds a figure to the page, and returns its number.
    """
    order = [
        *((f"stage-{stage.name}", stage.title) for stage in stage_registry.STAGES if stage.title),
        _CHECKS,
        _CURVES,
    ]
    found: dict[tuple[str, str], list[Block]] = {heading: [] for heading in order}
    for test in tests:
        stage = _titled(test)
        heading = _CURVES if test["kind"] == COLLECTIVE else _CHECKS
        if stage:
            heading = (f"stage-{stage.name}", stage.title)
        found[heading].append(_shown(test, keep, always_open=stage is not None))
    return [{"id": place, "title": title, "tests": rows} for (place, title), rows in found.items() if rows]


def _titled(test: ReadTest) -> Stage[Any] | None:
    """Return the stage of a test if the report has a section for this stage, otherwise None."""
    stage = stage_registry.stage_of(test)
    return stage if stage and stage.title and test["kind"] != COLLECTIVE else None


def _section(test: ReadTest) -> Section:
    stage = stage_registry.stage_of(test)
    return stage.section(test["own"]) if stage and test["own"] is not None else _EMPTY


def _shown(test: Detail, keep: Callable[[dict[str, Any]], int], *, always_open: bool) -> Block:
    """Return a test with its charts, tables and note."""
    own = _section(test)
    charts = [_placed(keep, chart_figure(chart), chart["title"]) for chart in own["charts"]]
    note = own["note"]
    if test["kind"] == COLLECTIVE:
        curve = curve_figure(test)
        charts += [_placed(keep, curve)] if curve else []
        note = note if curve else "Nothing was measured."
    for matrix in test["matrices"]:
        figure = matrix_figure(matrix, test["floor"] if matrix["p2p"] else None)
        charts.append(_placed(keep, figure, f"{matrix['title']}, {matrix['unit']}", matrix=True))
    tables = [_table(own["table"])] if own["table"] and own["table"]["rows"] else []
    tables += [_table(results_table(test["results"]), "diagnosis")] if test["results"] else []
    return {
        **test,
        "charts": charts,
        "tables": tables,
        "note": note if tables or not own["table"] else "",
        "open": test["open"] or always_open,
    }


def _placed(
    keep: Callable[[dict[str, Any]], int], figure: dict[str, Any], title: str = "", *, matrix: bool = False
) -> PlacedChart:
    return {"title": title, "figure": keep(figure), "height": figure["layout"]["height"], "matrix": matrix}


def _table(table: Table, css: str = "") -> PageTable:
    return {**table, "css": css}


def test_facts(test: ReadTest) -> list[tuple[str, str]]:
    """Return the facts about a test as terms and values, stage-specific facts first."""
    job = test["job"]
    # Stages that do not measure collectives use other units.
    unknown = "" if _titled(test) else "none"
    facts = [
        *_section(test)["facts"],
        ("Hardware", test["hardware"] or "unknown"),
        ("Ranks", str(test["ranks"]) if test["kind"] == COLLECTIVE else ""),
        ("Program", " ".join(word for word in (test["program"], test["version"]) if word)),
        ("Floor", f"{gbs(test['floor'])} GB/s" if test["floor"] is not None else unknown),
        ("Ceiling", f"{gbs(test['ceiling'])} GB/s" if test["ceiling"] is not None else unknown),
        ("Peers", _peers_words(test)),
        ("Partners", fold_hosts(test["partners"])),
        ("Slurm job", ", ".join(job[key] for key in ("job_id", "state") if job.get(key))),
        ("Raw output", test["output"] or ""),
    ]
    return [(term, value) for term, value in facts if value]


def _peers_words(test: ReadTest) -> str:
    peers = test["peers"]
    if peers is None:
        return ""
    return (
        f"{peers['count']} similar tests, median {gbs(peers['median'])} GB/s, at least {gbs(peers['least'])} expected"
    )
