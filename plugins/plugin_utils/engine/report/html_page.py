# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a validation report as a self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ..common.hostlist import fold_hosts
from ..common.printable import human_size
from ..validation.result_presentation import NONE
from .history import MINIMUM, drift
from .page_sections import gbs, rank_of, sections, test_facts
from .plotly_figures import heat_maps, trend_figure
from .report_reader import counts, culprits, everyone
from .tested_systems import facts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .page_sections import Detail, PageTest
    from .report_types import Compared, ReadReport, ReadTest

_PAGE = Path(__file__).parents[2] / "report_page"
_OPEN = 6
_MOST_DETAILS = 400
_MOST_LISTED = 10
# Rows of a table that are shown by default; the others are added on demand.
_MOST_ROWS = 500
_ORDER = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
_COLUMNS = (
    ("verdict", "Verdict", "text"),
    ("name", "Test", "text"),
    ("stage", "Stage", "text"),
    ("nodes", "Nodes", "text"),
    ("busbw", "Busbw, GB/s", "number"),
    ("floor", "Floor", "number"),
    ("ceiling", "Ceiling", "number"),
    ("size", "At size", "number"),
    ("seconds", "Seconds", "number"),
    ("reason", "Reason", "text"),
)


def page(report: ReadReport, others: Sequence[ReadReport], plotly: str, digest: str) -> str:
    """Return the page as HTML.

    All text of the report is escaped, and the content security policy allows only the two scripts and no requests.

    Args:
        report: a normalised report.
        others: other normalised reports to compare with.
        plotly: JavaScript of plotly.
        digest: SHA-256 of report.json, hexadecimal.
    """
    template, style, script = ((_PAGE / name).read_text("utf-8") for name in ("page.html.j2", "page.css", "page.js"))
    scripts = [_unix(text) for text in (plotly, script)]
    figures: list[dict[str, Any]] = []
    compared = drift(report, others)
    tests = _tests(report, figures)
    trend = trend_figure([item for item in compared if item["subject"] == "test"], report["started"])
    # Drifted values come first, because the section on drift refers to them.
    compared_rows = [_row(item) for item in sorted(compared, key=lambda item: not item["flags"])]
    rows, more = compared_rows[:_MOST_ROWS], compared_rows[_MOST_ROWS:]
    # The template is trusted, and inserted values are escaped.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(
        template
    ).render(
        report=report,
        policy=_policy(scripts),
        version=_version(),
        digest=digest,
        style=Markup(style),  # noqa: S704 - file of this collection
        plotly=Markup(scripts[0]),  # noqa: S704 - file of plotly
        script=Markup(scripts[1]),  # noqa: S704 - file of this collection
        when=_when(report["started"]),
        nodes=fold_hosts(report["nodes"]),
        counts=counts(report),
        culprits=culprits(report),
        doubts=[
            (fold_hosts(item["nodes"]), f"{word}{item['reason']}")
            for word, items in (("", report["unresolved"]), ("Suspected: ", report["suspected"]))
            for item in items
        ],
        failed=[test for test in tests["tests"] if test["verdict"] == "FAIL"][:_MOST_LISTED],
        **_flags(compared),
        columns=_COLUMNS,
        heat_maps=[
            {
                "title": item["title"],
                "figure": _kept(figures, item["figure"]),
                "height": item["figure"]["layout"]["height"],
            }
            for item in heat_maps(report)
        ],
        **tests,
        trend=_kept(figures, trend) if trend else None,
        compared=[*rows, *more],
        more_compared=[_compact(row["cells"], "flagged" if row["flagged"] else "") for row in more],
        more_tests=[_compact(list(test["cells"].values())) for test in tests["tests"][_MOST_ROWS:]],
        listed=_MOST_ROWS,
        earlier=sum(o["cluster"] == report["cluster"] and o["started"] < report["started"] for o in others),
        minimum=MINIMUM,
        limits=_limits(report),
        environment=facts_of(report),
        figures=figures,
    )


def _version() -> str:
    try:
        return metadata.version("busbar")
    except metadata.PackageNotFoundError:
        return "from a checkout"


def _unix(text: str) -> str:
    """Return text with Unix line ends, as browsers convert it before they compute the hash of a script."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _policy(scripts: list[str]) -> str:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{item}'" for item in hashes)
    own = f"script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _kept(figures: list[dict[str, Any]], figure: dict[str, Any]) -> int:
    """Add a figure and return its index on the page."""
    figures.append(figure)
    return len(figures) - 1


def _when(started: str) -> str:
    try:
        moment = datetime.fromisoformat(started.replace("Z", "+00:00"))  # Python 3.9 does not read Z
    except ValueError:
        return started or "unknown"
    return f"{moment.day} {moment:%B %Y, %H:%M %Z}".strip()


def _share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:+.1f} %".replace("-", "\u2212")


def _cell(text: str, value: float | str | None = None, kind: str = "text") -> dict[str, Any]:
    return {"text": text, "value": "" if value is None else value, "kind": kind}


def _compact(cells: list[dict[str, Any]], css: str = "") -> list[Any]:
    """Return a row in the format of the page's script: CSS class, cell texts, and numeric values by column."""
    values = {place: cell["value"] for place, cell in enumerate(cells) if cell["kind"] == "number"}
    return [css, [cell["text"] for cell in cells], values]


def _flags(compared: list[Compared]) -> dict[str, Any]:
    """Return the drifted values, nodes first; a pair is left out if one of its nodes is listed."""
    nodes = {item["name"] for item in compared if item["subject"] == "node" and item["flags"]}
    flagged = [
        item
        for item in sorted(compared, key=lambda item: item["subject"] != "node")
        if item["flags"] and (item["subject"] == "node" or not nodes.intersection(item["nodes"]))
    ]
    shown = [{"name": item["name"], "flags": item["flags"]} for item in flagged[:_MOST_LISTED]]
    return {"flags": shown, "more_flags": len(flagged) - len(shown)}


def _tests(report: ReadReport, figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows of the table, and the most informative tests with their figures."""
    ordered = sorted(enumerate(report["tests"]), key=lambda item: (_ORDER[item[1]["verdict"]], rank_of(item[1])))
    shown = {number for number, _test in ordered[:_MOST_DETAILS]}
    rows: dict[int, PageTest] = {
        number: {
            **test,
            "who": who,
            "cells": _cells(test, who),
            "anchor": f"test-{number}" if number in shown else "",
        }
        for number, test in enumerate(report["tests"])
        for who in [fold_hosts(everyone(test))]
    }
    details: list[Detail] = [
        {**rows[number], "facts": test_facts(test), "open": place < _OPEN}
        for place, (number, test) in enumerate(ordered[:_MOST_DETAILS])
    ]
    found = sections(details, partial(_kept, figures))
    return {"tests": [rows[number] for number, _test in ordered], "shown": len(details), "sections": found}


def _cells(test: ReadTest, who: str) -> dict[str, dict[str, Any]]:
    seconds = test["job"]["seconds"]
    return {
        "verdict": _cell(test["verdict"], test["verdict"]),
        "name": _cell(test["name"], test["name"]),
        "stage": _cell(test["stage"], test["stage"]),
        "nodes": _cell(who, who),
        "busbw": _cell(gbs(test["measured_busbw"]), test["measured_busbw"], "number"),
        "floor": _cell(gbs(test["floor"]), test["floor"], "number"),
        "ceiling": _cell(gbs(test["ceiling"]), test["ceiling"], "number"),
        "size": _cell(NONE if test["at_size"] is None else human_size(test["at_size"]), test["at_size"], "number"),
        "seconds": _cell(NONE if seconds is None else f"{seconds:.0f}", seconds, "number"),
        "reason": _cell(test["reason"], test["reason"]),
    }


def _row(item: Compared) -> dict[str, Any]:
    number = "number"
    return {
        "flagged": bool(item["flags"]),
        "cells": [
            _cell(item["name"], item["name"]),
            _cell(item["stage"], item["stage"]),
            _cell(gbs(item["busbw"]), item["busbw"], number),
            _cell(str(len(item["past"])), len(item["past"]), number),
            _cell(_share(item["last_change"]), item["last_change"], number),
            _cell(gbs(item["own_median"]), item["own_median"], number),
            _cell(_share(item["own_change"]), item["own_change"], number),
            _cell(gbs(item["fleet_median"]), item["fleet_median"], number),
            _cell(_share(item["fleet_change"]), item["fleet_change"], number),
        ],
    }


def _limits(report: ReadReport) -> list[dict[str, Any]]:
    """Return the limits without duplicates; limits that differ only in the nodes are merged."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for test in report["tests"]:
        count = len(everyone(test))
        what = test["collective"] or test["kind"]
        key = (test["hardware"], what, count, test["floor"], test["ceiling"], test["source"])
        if test["floor"] is not None or test["ceiling"] is not None:
            found[key] = {
                "hardware": test["hardware"] or "unknown",
                "collective": what,
                "nodes": count,
                "floor": gbs(test["floor"]),
                "ceiling": gbs(test["ceiling"]),
                "source": test["source"] or "none given",
            }
    return list(found.values())
