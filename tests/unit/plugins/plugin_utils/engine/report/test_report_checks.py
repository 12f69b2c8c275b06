"""Tests of matrices and diagnoses in a report, including damaged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.history import compare
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.plotly_figures import matrix_figure
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import (
    normalised,
    results_table,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import summary_lines
from check_samples import checked
from plotly.graph_objects import Figure
from report_samples import EVIL

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_types import Matrix, ReadTest
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import Report

REPORT = checked()
FIRST: dict[str, Any] = {
    "title": "t",
    "unit": "GB/s",
    "what": "pairs",
    "p2p": True,
    "rows": ["0", "1"],
    "columns": ["0", "1"],
    "values": [[700, 40], [None, 700]],
    "odd": [[0, 1]],
}


def one(name: str) -> ReadTest:
    return next(test for test in normalised(REPORT)["tests"] if test["name"] == name)


def with_matrix(**changes: Any) -> list[Matrix]:  # noqa: ANN401 - any value of a file
    """Return the matrices of a report that contains the first matrix with these changes."""
    test = {**REPORT["tests"][0], "matrices": [{**FIRST, **changes}]}
    return normalised({**REPORT, "tests": [test]})["tests"][0]["matrices"]


def test_summary_has_a_line_for_each_check() -> None:
    lines = summary_lines(cast("Report", REPORT))
    assert sum(" p2p-gpu" in line for line in lines if line.startswith(("PASS", "FAIL  p2p"))) == 4
    assert any(line.startswith("FAIL  p2p-gpu2 on gpu2: gpu2: GPU 2 and GPU 6: 126 GB/s") for line in lines)
    assert any(line.startswith("FAIL  dcgm_diag-gpu3 on gpu3: gpu3: memory of GPU 5 failed") for line in lines)
    assert "FAIL  culprit nodes: gpu[2-3]" in lines


def test_a_matrix_is_drawn_with_its_values_and_slow_cells() -> None:
    test = one("p2p-gpu2")
    matrix = test["matrices"][1]
    assert matrix["odd"] == [(2, 6)]
    figure = Figure(matrix_figure(matrix, test["floor"]))
    assert figure.data[0].text[2][6] == "126"
    assert max(max(line) for line in figure.data[0].z) == 380
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].y1) == (5.5, 2.5)


@pytest.mark.parametrize(
    ("changes", "kept", "odd"),
    [
        ({}, 1, [(0, 1)]),
        ({"odd": [[0, 2], [True, 0], [1], "x", [1, 0]]}, 1, [(1, 0)]),
        ({"odd": None}, 1, []),
        ({"values": [[1, 2]]}, 0, []),
        ({"values": [[1, 2], [3]]}, 0, []),
        ({"values": [["a", float("nan")], [None, True]]}, 1, [(0, 1)]),
        ({"rows": []}, 0, []),
        ({"columns": "01"}, 0, []),
        ({"title": EVIL, "unit": EVIL, "rows": [EVIL, "1"]}, 1, [(0, 1)]),
    ],
)
def test_damaged_matrices_are_dropped_or_repaired(
    changes: dict[str, Any], kept: int, odd: list[tuple[int, int]]
) -> None:
    found = with_matrix(**changes)
    assert len(found) == kept
    for matrix in found:
        assert matrix["odd"] == odd
        figure = Figure(matrix_figure(matrix, None)).to_json()
        assert figure is not None
        assert "<img" not in figure.replace(str(matrix["title"]), "")


def test_gpus_with_equal_results_share_a_row() -> None:
    rows = [[cell["text"] for cell in row] for row in results_table(one("dcgm_diag-gpu3")["results"])["rows"]]
    assert [row[:3] for row in rows] == [
        ["fail", "memory", "GPU 5"],
        ["skip", "eud", "node"],
        ["pass", "memory", "GPU 0, 1, 2, 3, 4, 6, 7"],
    ]
    assert rows[0][4] == "GPU 5 had uncorrectable errors"


@pytest.mark.parametrize("value", [None, 3, "x", [3, None, "x"], {"a": 1}])
def test_damaged_results_do_not_break_the_table(value: object) -> None:
    test = {**REPORT["tests"][0], "results": value, "matrices": value, "pairs": value}
    found = normalised({**REPORT, "tests": [test]})["tests"][0]
    assert found["matrices"] == []
    assert all(row[2]["text"] == "node" for row in results_table(found["results"])["rows"])


def test_checks_of_one_node_are_distinguished_when_reports_are_compared() -> None:
    report = normalised(REPORT)
    found = compare(report, report)
    assert (len(found["tests"]), found["only_first"], found["only_second"]) == (17, [], [])
