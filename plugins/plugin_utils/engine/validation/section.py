# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a stage shows of a test in a report, as data: charts, a table, facts and metrics that any writer can render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .options import NotRequired

__all__ = [
    "CODES",
    "CODE_WORDS",
    "NONE",
    "Bars",
    "Cell",
    "Chart",
    "Lines",
    "Metric",
    "Section",
    "Series",
    "ShownTest",
    "Table",
    "at_least",
    "bars",
    "curves",
    "finite",
    "number_cell",
    "points",
    "rows_of",
    "text_cell",
]

# Verdicts as Prometheus reads them: busbar's exit codes.
CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}
CODE_WORDS = "0 PASS, 1 FAIL, 3 INCONCLUSIVE"
NONE = "\u2013"
_MOST = 1e308


class Cell(TypedDict):
    """A cell of a table: its text, what it sorts by (empty where not measured), and its badge.

    A badge is pass, fail, inconclusive or skip.
    """

    text: str
    value: str | float
    badge: NotRequired[str]


class Table(TypedDict):
    """A table; columns are titles, each with text, long (a text of any length) or number."""

    columns: list[tuple[str, Literal["text", "long", "number"]]]
    rows: list[list[Cell]]


class Series(TypedDict):
    """Values of one name, one for each label of the chart, None where not measured.

    Attributes:
        words: to be written on the bars, one each.
        limits: levels that the values are held against.
        pale: whether it is there for comparison only.
    """

    name: str
    values: Sequence[float | None]
    words: NotRequired[list[str]]
    limits: NotRequired[list[float]]
    pale: NotRequired[bool]


class Bars(TypedDict):
    """Bars side by side for each label, upright, or sideways where labels are many or long."""

    kind: Literal["bars"]
    title: str
    unit: str
    labels: list[str]
    series: list[Series]
    sideways: bool


class Lines(TypedDict):
    """Lines over numbers; the limits of a series are level lines."""

    kind: Literal["lines"]
    title: str
    unit: str
    across: str
    at: list[float]
    series: list[Series]


Chart = Union[Bars, Lines]


class Section(TypedDict):
    """What a test has on the page beside what all tests have.

    Attributes:
        facts: terms and values; a value that is empty is left out.
        note: what explains the table.
    """

    charts: list[Chart]
    table: Table | None
    note: str
    facts: list[tuple[str, str]]


class ShownTest(TypedDict):
    """What a stage may rely on of a test in a report that was read.

    Attributes:
        own: what the stage read of its own figures, None where there were none.
        lowest_gbs: GB/s of the slowest pair of GPUs of a check.
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
    """A figure for Prometheus: its name without the prefix busbar_, in base units; None where not measured.

    One with the label node stands until that node is measured again; any other is of the last validation only.
    """

    name: str
    help: str
    labels: dict[str, str]
    value: float | None


def finite(value: object, least: float = 0.0) -> float | None:
    """Return a number out of somebody's JSON, None where it is none, is not finite or is below the least."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value < _MOST
    return float(value) if known and isinstance(value, (int, float)) else None


def rows_of(value: Mapping[str, Any], most: int, key: str = "rows") -> list[dict[str, Any]]:
    """Return the rows under a key of figures of unknown origin, up to a limit; without entries of another type."""
    rows = value.get(key)
    return [row for row in rows[:most] if isinstance(row, dict)] if isinstance(rows, list) else []


def bars(title: str, unit: str, labels: list[str], series: list[Series], *, sideways: bool = False) -> list[Chart]:
    """Return a chart of bars, or nothing if there is no label."""
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
    """Return rows of so many numbers from JSON of unknown origin; the first of each is known, and they ascend."""
    rows = [row for row in value if isinstance(row, list) and len(row) == width] if isinstance(value, list) else []
    found = [[finite(each) for each in row] for row in rows[:most]]
    return sorted((row for row in found if row[0] is not None), key=lambda row: row[0] or 0.0)


def curves(  # noqa: PLR0913 - the parts of a chart
    title: str,
    unit: str,
    across: str,
    rows: list[list[float | None]],
    columns: dict[str, int],
    *,
    limits: Sequence[float] = (),
) -> list[Chart]:
    """Return a chart of lines, or nothing if nothing was measured.

    Args:
        title: of the chart.
        unit: of the values.
        across: unit of the first number of each row.
        rows: points as read by `points`.
        columns: name of each line, and the place of its values in a row.
        limits: level lines.
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
    """Return the fact that names the known floors, each in the form of its text."""
    return "At least", ", ".join(text.format(floor) for floor, text in floors if floor)


def number_cell(value: float | None, factor: float = 1) -> Cell:
    """Return a cell of a number, shown times a factor."""
    return {"text": NONE if value is None else f"{value * factor:.4g}", "value": "" if value is None else value}


def text_cell(text: str, badge: str = "") -> Cell:
    """Return a cell of a text, with a badge where one is named."""
    return {"text": text, "value": text, "badge": badge} if badge else {"text": text, "value": text}
