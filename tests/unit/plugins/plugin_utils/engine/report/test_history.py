"""Tests of the comparison of a validation with earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.history import (
    compare,
    drift,
    node_figures,
    points,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.bandwidth_curve import (
    median_and_tolerance,
)
from report_samples import of_pairs, small, validation

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_types import ReadReport, ReadTest

PAST = [normalised(small(f"2026-11-{day:02d}T08:00:00Z")) for day in range(10, 15)]


def flagged(report: ReadReport, others: list[ReadReport]) -> dict[str, list[str]]:
    return {item["name"]: item["flags"] for item in drift(report, others) if item["flags"]}


@pytest.mark.parametrize(
    ("values", "middle", "ordinary"),
    [
        ([10.0], 10.0, 0.5),
        ([10.0, 10.0, 10.0, 2.0], 10.0, 0.5),
        ([9.5, 10.0, 10.5], 10.0, 3.5 * 1.4826 * 0.5),
        ([4.0, 10.0, 16.0], 10.0, 5.0),
        ([0.0, 0.0], 0.0, 0.0),
    ],
)
def test_spread(values: list[float], middle: float, ordinary: float) -> None:
    assert median_and_tolerance(values) == pytest.approx((middle, ordinary))


def test_spread_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        median_and_tolerance([])


@pytest.mark.parametrize(
    ("share", "past", "sentences"),
    [
        (1.0, PAST, 0),
        (0.97, PAST, 0),
        (0.9, PAST, 2),
        (0.9, PAST[:3], 1),
        (0.5, [], 1),
        (1.1, PAST, 0),
    ],
)
def test_node_is_compared_with_its_past_and_the_fleet(share: float, past: list[ReadReport], sentences: int) -> None:
    found = flagged(normalised(small(slow=share)), past)
    assert {name: len(flags) for name, flags in found.items()} == ({"node-gpu3": sentences} if sentences else {})


def test_failed_results_are_not_in_the_median() -> None:
    slow = [normalised(small(f"2026-11-{day:02d}T08:00:00Z", slow=0.5)) for day in range(10, 18)]
    healed = next(item for item in drift(normalised(small()), slow) if item["name"] == "node-gpu3")
    assert (healed["own_median"], healed["flags"], len(healed["past"])) == (None, [], 8)
    assert healed["last_change"] == pytest.approx(1.0)


def test_other_clusters_later_reports_and_other_nodes_are_ignored() -> None:
    now = normalised(small("2026-11-12T00:00:00Z", slow=0.5))
    foreign: list[ReadReport] = [{**report, "cluster": "beta"} for report in PAST]
    assert all(not item["past"] for item in drift(now, foreign))
    assert {len(item["past"]) for item in drift(now, PAST)} == {2}
    other = normalised(validation([{"name": "cluster", "stage": "cluster", "nodes": ["x1", "x2"], "peak": 362.0}]))
    assert drift(other, PAST)[0]["past"] == []


def test_new_nodes_are_compared_with_the_rest_of_the_fleet() -> None:
    new = normalised(validation([{"name": "node-new1", "stage": "node", "nodes": ["new1"], "peak": 400.0}]))
    item = drift(new, PAST)[0]
    assert item["fleet_median"] == pytest.approx(473)
    assert "of 5 comparable results" in item["flags"][0]


def test_the_node_that_is_slow_in_all_its_pairs_is_flagged() -> None:
    report = normalised(of_pairs(6, slow="gpu3"))
    nodes = [item for item in drift(report, []) if item["subject"] == "node"]
    assert [item["name"] for item in nodes] == [f"gpu{number}" for number in range(1, 7)]
    assert [item["name"] for item in nodes if item["flags"]] == ["gpu3"]
    assert len(points(report)) == 15 + 6


def test_values_of_each_node() -> None:
    pairs = {item["node"]: item for item in node_figures(normalised(of_pairs(4, slow="gpu3")))}
    assert {node: item["verdict"] for node, item in pairs.items()} == {
        "gpu1": "PASS",
        "gpu2": "PASS",
        "gpu3": "FAIL",
        "gpu4": "PASS",
    }
    assert pairs["gpu3"]["busbw"] == 121
    both = [item for item in node_figures(normalised(small(slow=0.5))) if item["node"] == "gpu3"]
    assert [(item["stage"], item["verdict"]) for item in both] == [("cluster", "PASS"), ("node", "FAIL")]


def test_failed_repeat_outweighs_a_passed_one() -> None:
    report = normalised(small())
    again: ReadTest = {**report["tests"][0], "name": "again", "verdict": "FAIL"}
    report["tests"].append(again)
    assert node_figures(report)[1] == {
        "node": "gpu1",
        "stage": "node",
        "collective": "all_reduce",
        "verdict": "FAIL",
        "busbw": 472,
        "floor": 460,
        "ceiling": 490.28,
    }


def test_compare() -> None:
    found = compare(PAST[0], normalised(small(slow=0.5)))
    rows = {test["name"]: test for test in found["tests"]}
    assert list(rows) == ["node-gpu1", "node-gpu2", "node-gpu3", "node-gpu4", "cluster"]
    assert rows["node-gpu3"]["verdicts"] == ["PASS", "FAIL"]
    assert (rows["node-gpu3"]["flag"], rows["node-gpu1"]["flag"]) == ("slower", "")
    assert compare(normalised(small(slow=0.5)), PAST[0])["tests"][2]["flag"] == "faster"
    other = compare(PAST[0], normalised(of_pairs(2)))
    assert (other["tests"], other["only_second"]) == ([], ["pair-gpu1-gpu2"])
    assert len(other["only_first"]) == 5
