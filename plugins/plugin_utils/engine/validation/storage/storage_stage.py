# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The storage stage: checks the shared tree with one job on all nodes."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...common.option_names_in_messages import option
from ..option_types import Span, bytes_of
from ..planned_tests import profile_of
from ..programs.program_stage import ProgramStage
from ..programs.report_columns import Column, Figures, Gauge
from ..programs.stage_verdict import Floors
from ..result_presentation import CODE_WORDS, bars, text_cell
from .storage_judge import judge_storage
from .storage_parser import read_storage
from .storage_results import WAYS, Limits

if TYPE_CHECKING:
    from ..result_presentation import Chart, Series
    from ..validation_types import Options, Planned

_MB = 1e6
_MOST_BARS = 40
_ORDER = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
_MODES = {"direct": "without the node's cache", "fsync": "including fsync"}
_gauge = partial(Gauge, labels=(("path", "path"), ("node", "node")))

_LEAST_BYTES = 1 << 20
_PATH = re.compile(r"/[^\x00-\x1f]*")


class StorageOptions(TypedDict):
    """The validation_storage_* options: size such as 16M, floors in bytes/s (0: use the profile's)."""

    script: str
    path: str
    speed: bool
    size: str
    seconds: Annotated[int, Span(1)]
    read_floor: Annotated[float, Span(0)]
    write_floor: Annotated[float, Span(0)]


class Storage(ProgramStage[StorageOptions]):
    """Tests whether all nodes share a directory tree correctly, and the speed of each node."""

    name = "storage"
    form = StorageOptions
    title = "Shared tree"
    rank = 1
    proves = True
    figures = Figures(
        columns=(
            Column(
                "verdict",
                "Verdict",
                "text",
                read=lambda value: value if value in _ORDER else "INCONCLUSIVE",
                cell=lambda row: text_cell(row["verdict"], row["verdict"].lower()),
            ),
            Column("node", "Node", "text"),
            Column("write", "Write, MB/s", factor=1 / _MB),
            Column("write_floor", "Floor", factor=1 / _MB),
            Column("read", "Read, MB/s", factor=1 / _MB),
            Column("read_floor", "Floor", factor=1 / _MB),
            Column("filesystem", "Mounted", "text"),
            Column("reason", "Reason", "long"),
        ),
        values=(Column("path", kind="text"), Column("mode", kind="text")),
        gauges=(
            _gauge("storage_verdict", f"Whether a node shares the tree correctly: {CODE_WORDS}.", "verdict"),
            _gauge(
                "storage_write_bytes_per_second",
                "Write rate of a node to the shared tree while all nodes write.",
                "write",
            ),
            _gauge("storage_write_floor_bytes_per_second", "Minimum write rate of a node.", "write_floor"),
            _gauge(
                "storage_read_bytes_per_second",
                "Read rate of a node from the shared tree while all nodes read.",
                "read",
            ),
            _gauge("storage_read_floor_bytes_per_second", "Minimum read rate of a node.", "read_floor"),
        ),
        rows="nodes",
        order=lambda row: _ORDER[row["verdict"]],
    )

    def problems(self, options: Options) -> list[str]:
        """Return the problems with the path and the size."""
        if not self.requested(options):
            return []
        own = self.own(options)
        problems = []
        if not _PATH.fullmatch(own["path"]):
            problems.append(f"{option('storage_path')}: must be the path of a shared directory tree")
        try:
            if bytes_of(own["size"]) < _LEAST_BYTES:
                problems.append(f"{option('storage_size')}: {own['size']} is less than 1M")
        except ValueError as exc:
            problems.append(f"{option('storage_size')}: {exc}")
        return problems

    def budget(self, options: Options) -> list[str]:
        """Return the path to test and the maximum duration."""
        where = self.own(options)["path"]
        return [f"storage: all nodes together at {where}, at most {options['test_time_limit']} s"]

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return the verdict, reason, findings and values of each node."""
        del planned
        return judge_storage(read_storage(text), nodes, self._limits(options, nodes))

    def _limits(self, options: Options, nodes: list[str]) -> Limits:
        """Return the limits, with floors from the options or else from each node's hardware profile."""
        own, chosen = self.own(options), Floors()
        given = {"read": own["read_floor"], "write": own["write_floor"]}
        floors: dict[str, dict[str, float | None]] = {}
        for node in nodes:
            declared = profile_of(options, node).get("storage") or {}
            known = {way: declared.get(f"{way}_floor_bytes_per_second") for way in WAYS}
            floors[node] = {way: chosen.pick(given[way], known[way], declared.get("source")) for way in WAYS}
        return Limits(own["path"], floors, str(chosen), own["speed"])

    def charts(self, figures: dict[str, Any]) -> list[Chart]:
        """Return a chart of the rates of each node, slowest first."""
        rates = {row["node"]: [row[way] for way in WAYS if row[way] is not None] for row in figures["nodes"]}
        known = [row for row in figures["nodes"] if rates[row["node"]]]
        rows = sorted(known, key=lambda row: min(rates[row["node"]]))[:_MOST_BARS]
        series: list[Series] = [
            {
                "name": way,
                "values": [None if row[way] is None else row[way] / _MB for row in rows],
                "limits": sorted({row[f"{way}_floor"] / _MB for row in rows if row[f"{way}_floor"] is not None}),
            }
            for way in WAYS
        ]
        return bars("", "MB/s", [row["node"] for row in rows], series, sideways=True)

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the path, and how the speed was measured."""
        return [("Shared tree", figures["path"]), ("Measured", _MODES.get(figures["mode"], ""))]
