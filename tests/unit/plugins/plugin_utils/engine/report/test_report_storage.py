"""Tests of the storage stage in a report: table, bars and metrics, including damaged reports."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.metrics import metrics
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.plotly_figures import chart_figure
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import culprits, normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.storage.storage_stage import Storage
from plotly.graph_objects import Figure
from report_samples import EVIL
from storage_samples import edit, private, stored

SLOW = stored(edit("speed-read", "gpu2", rate=500))
PRIVATE = stored(private("gpu3", type="tmpfs", mount="/shared", source="tmpfs"))
ROW: dict[str, Any] = {"node": "gpu1", "verdict": "PASS", "filesystem": "", "reason": "", "write": 1e8, "read": 2e8}
ROW |= {"write_floor": 1e6, "read_floor": None}


def tree(report: dict[str, Any]) -> Any:  # noqa: ANN401 - None where the report holds none
    return normalised(report)["tests"][0]["own"]


def with_storage(value: object) -> dict[str, Any]:
    return {**PRIVATE, "tests": [{**PRIVATE["tests"][0], "storage": value}]}


def test_the_worst_node_is_the_first_row() -> None:
    table = Storage().section(tree(SLOW))["table"]
    assert table is not None
    rows = [[cell["text"] for cell in row] for row in table["rows"]]
    assert [row[:2] for row in rows] == [["FAIL", "gpu2"], ["PASS", "gpu1"], ["PASS", "gpu3"]]
    assert rows[0][2:7] == ["400", "0.001", "0.0005", "0.001", "nfs4 ctl:/export on /shared"]
    assert [row[0].get("badge") for row in table["rows"]] == ["fail", "pass", "pass"]
    assert {len(row) for row in rows} == {len(table["columns"])}


def test_only_the_culprit_is_blamed() -> None:
    assert [item["nodes"] for item in culprits(normalised(PRIVATE))] == [["gpu3"]]
    report = {key: value for key, value in PRIVATE.items() if key != "culprits"}
    assert culprits(normalised(report)) == []


def test_bars_and_floors_are_drawn_for_each_node() -> None:
    (chart,) = Storage().section(tree(SLOW))["charts"]
    figure = Figure(chart_figure(chart))
    assert [(bar.type, bar.name) for bar in figure.data] == [
        ("bar", "write"),
        ("scatter", "write floor"),
        ("bar", "read"),
        ("scatter", "read floor"),
    ]
    assert list(figure.data[0].y) == ["gpu2", "gpu1", "gpu3"]
    assert set(figure.data[1].x) == {0.001}


@pytest.mark.parametrize(
    ("rows", "bars"),
    [
        ([], None),
        ([{**ROW, "write": None, "read": None}], None),
        ([{**ROW, "write": None}], 1),
        ([{**ROW, "node": f"gpu{number}"} for number in range(90)], 40),
    ],
)
def test_unmeasured_nodes_have_no_bar_and_the_number_of_bars_is_limited(rows: list[Any], bars: int | None) -> None:
    charts = Storage().section({"path": "/shared", "mode": "", "nodes": rows})["charts"]
    assert [len(chart_figure(chart)["data"][0]["y"]) for chart in charts] == ([] if bars is None else [bars])


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        (None, None),
        ([], None),
        ({}, 0),
        ({"nodes": "gpu1"}, 0),
        ({"nodes": [None, {}, {"node": EVIL, "write": float("inf"), "read": "9", "verdict": "GREAT"}]}, 2),
    ],
)
def test_damaged_report_is_still_read(value: object, rows: int | None) -> None:
    storage = tree(with_storage(value))
    assert (None if storage is None else len(storage["nodes"])) == rows
    if rows:
        assert {row["verdict"] for row in storage["nodes"]} == {"INCONCLUSIVE"}
        assert {row["write"] for row in storage["nodes"]} == {None}
        assert Storage().section(storage)["charts"] == []
    metrics(normalised(with_storage(value)))
