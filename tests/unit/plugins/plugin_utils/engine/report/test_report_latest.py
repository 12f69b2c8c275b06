"""Tests of the latest values of each node over several validations, as Prometheus metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.metrics import (
    last_figures,
    last_metrics,
    last_validated,
    metrics,
    past,
    seconds,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from check_samples import checked
from prometheus_client.parser import text_string_to_metric_families
from report_samples import of_pairs, small, validation

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_types import ReadReport

FIRST, SECOND, THIRD = (f"2026-11-{day}T08:00:00Z" for day in (10, 11, 12))
NEW = {"name": "node-gpu9", "stage": "node", "nodes": ["gpu9"], "peak": 472.0}
KILLED = {"name": "node-gpu3", "stage": "node", "nodes": ["gpu3"], "text": "Killed\n"}


def reports(*items: dict[str, Any]) -> list[ReadReport]:
    return [normalised(item) for item in items]


def samples(*items: dict[str, Any], nodes: list[str] | None = None) -> dict[str, dict[tuple[str, str], float]]:
    """Return the values by metric, then by node and stage."""
    *earlier, last = reports(*items)
    return {
        family.name: {
            (sample.labels.get("node", ""), sample.labels.get("stage", "")): sample.value for sample in family.samples
        }
        for family in text_string_to_metric_families(metrics(last, earlier, nodes))
    }


def test_validation_of_one_node_keeps_the_values_of_the_others() -> None:
    found = samples(small(FIRST, slow=0.5), validation([NEW], started=SECOND))
    assert found["busbar_validation_verdict"] == {("", ""): 0}
    verdicts = found["busbar_node_verdict"]
    assert {node for node, stage in verdicts if stage == "node"} == {"gpu1", "gpu2", "gpu3", "gpu4", "gpu9"}
    assert {who for who, verdict in verdicts.items() if verdict} == {("gpu3", "node")}
    assert found["busbar_node_busbw_bytes_per_second"]["gpu3", "node"] == pytest.approx(237e9)
    when = found["busbar_node_figure_timestamp_seconds"]
    assert (when["gpu3", "node"], when["gpu9", "node"]) == (seconds(FIRST), seconds(SECOND))
    validated = {node: value for (node, _stage), value in found["busbar_node_validated_timestamp_seconds"].items()}
    assert validated == {**{f"gpu{number}": seconds(FIRST) for number in range(1, 5)}, "gpu9": seconds(SECOND)}


def test_passed_test_of_all_nodes_supersedes_an_older_search() -> None:
    search = of_pairs(4, started=FIRST)
    alone = validation([{**NEW, "name": "node-gpu3", "nodes": ["gpu3"]}], started=SECOND)
    pairs = {(f"gpu{number}", "pair") for number in range(1, 5)}
    assert pairs <= samples(search, alone)["busbar_node_verdict"].keys()
    assert samples(search, alone)["busbar_node_verdict"]["gpu3", "pair"] == 1
    assert not pairs & samples(search, small(SECOND))["busbar_node_verdict"].keys()
    slow = validation([{"name": "cluster", "stage": "cluster", "nodes": ["gpu1", "gpu2", "gpu3"], "peak": 9.0}])
    assert pairs <= samples(search, slow)["busbar_node_verdict"].keys()


def test_newer_value_replaces_the_older_and_inconclusive_is_not_a_validation() -> None:
    found = samples(small(FIRST), validation([KILLED], started=SECOND))
    assert found["busbar_node_verdict"]["gpu3", "node"] == 3
    assert ("gpu3", "node") not in found["busbar_node_busbw_bytes_per_second"]
    assert found["busbar_node_verdict"]["gpu3", "cluster"] == 0
    assert found["busbar_node_validated_timestamp_seconds"]["gpu3", ""] == seconds(FIRST)
    healed = samples(small(FIRST, slow=0.5), validation([KILLED], started=SECOND), small(THIRD))
    assert set(healed["busbar_node_verdict"].values()) == {0}


def slow_cluster(culprits: list[dict[str, Any]] | None, started: str = SECOND) -> dict[str, Any]:
    """Return the report of a validation in which four nodes are slow together, with these culprits."""
    names = [f"gpu{number}" for number in range(1, 5)]
    tests = [
        {"name": "cluster", "stage": "cluster", "nodes": names, "peak": 99.0},
        *({"name": f"pair-{n}-gpu3", "stage": "pair", "nodes": [n, "gpu3"], "peak": 99.0} for n in ("gpu1", "gpu2")),
    ]
    found = validation(tests, started=started)
    assert {test["verdict"] for test in found["tests"]} == {"FAIL"}
    return found if culprits is None else found | {"culprits": culprits}


@pytest.mark.parametrize(
    ("culprits", "blamed"),
    [
        ([{"kind": "node", "nodes": ["gpu3"], "reason": "slow"}], {"gpu3"}),
        ([{"kind": "link", "nodes": ["gpu1", "gpu3"], "reason": "slow"}], set()),
        ([], set()),
        (None, set()),
    ],
    ids=["a node", "a link", "none was found", "no search"],
)
def test_a_slow_test_of_several_nodes_blames_only_its_culprit(
    culprits: list[dict[str, Any]] | None, blamed: set[str]
) -> None:
    found = samples(small(FIRST), slow_cluster(culprits))
    below = {node for (node, stage), code in found["busbar_node_verdict"].items() if code == 1}
    figures = {node for node, stage in found["busbar_node_busbw_bytes_per_second"] if stage in {"cluster", "pair"}}
    assert (below, figures) == (blamed, blamed)
    healed = samples(slow_cluster(culprits), small(THIRD))
    assert {code for (_node, stage), code in healed["busbar_node_verdict"].items() if stage == "cluster"} == {0}


def test_removed_components_are_no_longer_reported() -> None:
    found = samples(small(FIRST), validation([NEW], started=SECOND), nodes=["gpu1", "gpu9"])
    told = {node for family in found for node, _stage in found[family] if family.startswith("busbar_node_")}
    assert told == {"gpu1", "gpu9"}


def test_reports_of_other_clusters_are_ignored() -> None:
    one, other = reports(small(FIRST), small(SECOND) | {"cluster": "beta"})
    assert past(other, [one]) == [other]
    later: ReadReport = {**one, "started": THIRD}
    assert past(later, [one, other]) == [one, later]


def test_latest_check_results_are_kept() -> None:
    kept = reports(checked(), validation([NEW], started="2027-01-01T08:00:00Z"))
    assert last_metrics(kept) == last_metrics(kept[:1])
    told = [item["labels"] for item in last_metrics(kept, ["gpu2"])]
    assert {labels["check"] for labels in told} == {"p2p", "nvbandwidth", "dcgm_diag"}
    assert {labels["node"] for labels in told} == {"gpu2"}
    row = {"node": "gpu1", "verdict": "FAIL", "write": 1e6, "read": 1e6}
    tree = small(FIRST)
    tree["tests"][0] |= {"kind": "storage", "storage": {"path": "/shared", "mode": "all", "nodes": [row]}}
    found = {item["name"]: item for item in last_metrics(reports(tree, small(SECOND)))}
    assert found["storage_verdict"]["labels"] == {"path": "/shared", "node": "gpu1"}
    assert (found["storage_verdict"]["value"], found["storage_write_bytes_per_second"]["value"]) == (1, 1e6)
    assert samples(tree, small(SECOND))["busbar_storage_verdict"] == {("gpu1", ""): 1}


def test_invalid_time_is_left_out() -> None:
    (report,) = reports(small() | {"started": "yesterday"})
    assert (last_validated([report]), seconds("yesterday")) == ({}, None)
    assert last_figures([report])[0]["started"] == "yesterday"
