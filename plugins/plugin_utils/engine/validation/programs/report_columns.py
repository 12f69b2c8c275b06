# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Declare a stage's values: how to parse them from report.json, show them in a table, and export them as metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..result_presentation import CODES, finite, number_cell, rows_of, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..result_presentation import Cell, Metric, Table

Row = dict[str, Any]
_DEVICE_LABELS = (("node", "node"), ("device", "device"))


class Column(NamedTuple):
    """One key of a stage's values.

    Attributes:
        key: its name in report.json.
        title: its column title; None to omit it from the table.
        kind: number; whole (an index or a count); text; long (a text that wraps).
        factor: factor of a number in the table.
        read: function that parses the value, if it differs from that of the kind.
        cell: function that returns the cell of a row, if it differs from that of the kind.
        badge: badge of a non-empty text.
        former: its key in reports of earlier releases.
    """

    key: str
    title: str | None = None
    kind: Literal["number", "whole", "text", "long"] = "number"
    factor: float = 1
    read: Callable[[object], Any] | None = None
    cell: Callable[[Row], Cell] | None = None
    badge: str = ""
    former: str = ""

    def value(self, given: object, plain: Callable[[object], str]) -> Any:  # noqa: ANN401 - depends on the column
        """Return the parsed value from untrusted JSON."""
        if self.read:
            return self.read(given)
        if self.kind == "whole":
            return int(finite(given) or 0)
        return finite(given) if self.kind == "number" else plain(given or "")

    def shown(self, row: Row) -> Cell:
        """Return the cell of a row."""
        value = row[self.key]
        if self.cell:
            return self.cell(row)
        if self.kind == "whole":
            return {"text": str(value), "value": value}
        return (
            number_cell(value, self.factor) if self.kind == "number" else text_cell(value, self.badge if value else "")
        )


# The first columns of a table with one row per device.
DEVICE = (Column("node", "Node", "text"), Column("device", "Device", "whole"), Column("uuid", "UUID", "text"))


class Gauge(NamedTuple):
    """A Prometheus metric with one sample per row.

    Attributes:
        name: name without the prefix busbar_.
        help: description.
        key: key in the row; a verdict is exported as its exit code.
        labels: pairs of a label and the key of its value in the row or in the test's values.
        factor: factor from the value to the base unit.
    """

    name: str
    help: str
    key: str
    labels: tuple[tuple[str, str], ...] = _DEVICE_LABELS
    factor: float = 1

    def sample(self, row: Row) -> Metric:
        """Return the sample of a row."""
        value = CODES.get(row[self.key], row[self.key])
        return {
            "name": self.name,
            "help": self.help,
            "labels": {label: str(row[key]) for label, key in self.labels},
            "value": None if value is None else float(value) * self.factor,
        }


@dataclass(frozen=True)
class Figures:
    """The stage-specific values of a test: single values and rows.

    Attributes:
        columns: columns of each row.
        values: values of the whole test.
        gauges: metrics of each row.
        note: explanation of the table.
        rows: key of the rows.
        order: sort key of the rows on the page; None to keep their order.
    """

    columns: tuple[Column, ...]
    values: tuple[Column, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    note: str = ""
    rows: str = "rows"
    order: Callable[[Row], Any] | None = None
    most_read: int = 65_536
    most_shown: int = 512

    def read(self, value: object, plain: Callable[[object], str]) -> Row | None:
        """Return the values from an untrusted report, or None if they are not a dictionary."""
        if not isinstance(value, dict):
            return None
        rows = rows_of(value, self.most_read, self.rows)
        return {
            **{column.key: column.value(value.get(column.key), plain) for column in self.values},
            self.rows: [
                {item.key: item.value(row.get(item.key, row.get(item.former)), plain) for item in self.columns}
                for row in rows
            ],
        }

    def ordered(self, figures: Row) -> Row:
        """Return the values with their rows in the order of the page."""
        return {**figures, self.rows: sorted(figures[self.rows], key=self.order)} if self.order else figures

    def table(self, figures: Row) -> Table:
        """Return the rows as a table of the report."""
        shown = [column for column in self.columns if column.title is not None]
        return {
            "columns": [(item.title or "", "number" if item.kind == "whole" else item.kind) for item in shown],
            "rows": [[column.shown(row) for column in shown] for row in figures[self.rows][: self.most_shown]],
        }

    def metrics(self, figures: Row) -> list[Metric]:
        """Return the samples of all rows."""
        rows = [{**figures, **row} for row in figures[self.rows]]
        return [gauge.sample(row) for row in rows for gauge in self.gauges]
