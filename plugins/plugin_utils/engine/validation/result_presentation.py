# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Types and functions for the presentation of a test: charts, tables, facts and metrics, independent of the format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .option_types import NotRequired

# Verdicts in Prometheus, equal to busbar's exit codes.
CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}
CODE_WORDS = "0 PASS, 1 FAIL, 3 INCONCLUSIVE"
NONE = "\u2013"
_MOST = 1e308


class Cell(TypedDict):
    """A cell of a table: its text, its sort key (empty if not measured), and its badge.

    The badge is pass, fail, inconclusive or skip.
    """

    text: str
    value: str | float
    badge: NotRequired[str]


class Table(TypedDict):
    """A table; each column has a title and a type: text, long (a text of any length) or number."""

    columns: list[tuple[str, Literal["text", "long", "number"]]]
    rows: list[list[Cell]]


class Series(TypedDict):
    """A series of values, one for each label of the chart; None if not measured.

    Attributes:
        words: text on each bar.
        limits: limits of the values.
        pale: whether the series is shown only for comparison.
    """

    name: str
    values: Sequence[float | None]
    words: NotRequired[list[str]]
    limits: NotRequired[list[float]]
    pale: NotRequired[bool]


class Bars(TypedDict):
    """A bar chart with one bar per label and series; the bars are horizontal if `sideways`."""

    kind: Literal["bars"]
    title: str
    unit: str
    labels: list[str]
    series: list[Series]
    sideways: bool


class Lines(TypedDict):
    """A line chart; the limits of a series are horizontal lines."""

    kind: Literal["lines"]
    title: str
    unit: str
    across: str
    at: list[float]
    series: list[Series]


Chart = Union[Bars, Lines]


class Section(TypedDict):
    """The stage-specific section of a test on the page.

    Attributes:
        facts: terms and values; empty values are left out.
        note: explanation of the table.
    """

    charts: list[Chart]
    table: Table | None
    note: str
    facts: list[tuple[str, str]]


class ShownTest(TypedDict):
    """The keys of a parsed test that stages read.

    Attributes:
        own: the stage-specific values, None if missing.
        lowest_gbs: GB/s of the slowest GPU pair of a check.
    """

    name: str
    stage: str
    kind: str
    nodes: list[str]
    partners: list[str]
    hardware: str
    verdict: str
    lowest_gbs: float | None
    own: Any


class Metric(TypedDict):
    """A Prometheus metric: name without the prefix busbar_, and value in base units; None if not measured.

    A metric with the label node is exported until that node is measured again, any other metric until the next
    validation.
    """

    name: str
    help: str
    labels: dict[str, str]
    value: float | None


def finite(value: object, least: float = 0.0) -> float | None:
    """Return a number from untrusted JSON, or None if it is not a finite number of at least `least`."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value < _MOST
    return float(value) if known and isinstance(value, (int, float)) else None


def rows_of(value: Mapping[str, Any], most: int, key: str = "rows") -> list[dict[str, Any]]:
    """Return up to `most` rows from untrusted JSON; entries that are not dictionaries are skipped."""
    rows = value.get(key)
    return [row for row in rows[:most] if isinstance(row, dict)] if isinstance(rows, list) else []


def bars(title: str, unit: str, labels: list[str], series: list[Series], *, sideways: bool = False) -> list[Chart]:
    """Return a bar chart, or an empty list if it has no labels."""
    chart: Bars = {
        "kind": "bars",
        "title": title,
        "unit": unit,
        "labels": labels,
        "series": series,
        "sideways": sideways,
    }
    return [chart] if labels else []


def points(value: object, width: int, most: int = 1000) -> list[list[float | None]]:
    """Return rows of `width` numbers from untrusted JSON, sorted by the first number, which is not None."""
    rows = [row for row in value if isinstance(row, list) and len(row) == width] if isinstance(value, list) else []
    found = [[finite(each) for each in row] for row in rows[:most]]
    return sorted((row for row in found if row[0] is not None), key=lambda row: row[0] or 0.0)


def curves(  # noqa: PLR0913 - one for each part of a chart
    title: str,
    unit: str,
    across: str,
    rows: list[list[float | None]],
    columns: dict[str, int],
    *,
    limits: Sequence[float] = (),
) -> list[Chart]:
    """Return a line chart, or an empty list if nothing was measured.

    Args:
        title: title of the chart.
        unit: unit of the values.
        across: unit of the first number of each row.
        rows: points as read by `points`.
        columns: name of each line, and the position of its values in a row.
        limits: horizontal lines.
    """
    series: list[Series] = []
    for name, place in columns.items():
        if any(row[place] is not None for row in rows):
            line: Series = {"name": name, "values": [row[place] for row in rows]}
            series.append({**line, "limits": list(limits)} if limits else line)
    at = [row[0] or 0.0 for row in rows]
    chart: Lines = {"kind": "lines", "title": title, "unit": unit, "across": across, "at": at, "series": series}
    return [chart] if series else []


def at_least(*floors: tuple[float | None, str]) -> tuple[str, str]:
    """Return a fact that lists the known floors, each formatted with the given text."""
    return "At least", ", ".join(text.format(floor) for floor, text in floors if floor)


def number_cell(value: float | None, factor: float = 1) -> Cell:
    """Return a cell with a number, multiplied by a factor."""
    return {"text": NONE if value is None else f"{value * factor:.4g}", "value": "" if value is None else value}


def text_cell(text: str, badge: str = "") -> Cell:
    """Return a cell with a text and an optional badge."""
    return {"text": text, "value": text, "badge": badge} if badge else {"text": text, "value": text}
