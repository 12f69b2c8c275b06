"""Tests of report parsing: the published schema, and the normalised format."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import (
    culprits,
    curves,
    normalised,
)
from check_samples import checked
from report_samples import nccl_text, of_pairs, small, validation, with_node_changes
from storage_samples import drop, private, stored

ROOT = Path(__file__).parents[6]
SCHEMA = json.loads((ROOT / "roles/validation/files/report.schema.json").read_text())
MPI = (ROOT / "tests/fixtures/nccl/mpi_2_nodes.txt").read_text()
NOT_RUN = {"entry": {"problem": "did not start", "batch_host": "", "job_id": "", "seconds": 0.0}}
CASES = {
    "passed": small(),
    "one slow": small(slow=0.5),
    "out of service": small() | with_node_changes(),
    "pairs": of_pairs(4),
    "mpi": validation(
        [{"name": "c", "stage": "cluster", "nodes": ["gpu1", "gpu2"], "text": MPI}], hardware="sandbox_gpu"
    ),
    "no output": validation([{"name": "c", "stage": "cluster", "nodes": ["gpu1", "gpu2"], "text": None, **NOT_RUN}]),
    "noise": validation([{"name": "c", "stage": "cluster", "nodes": ["gpu1"], "text": "\x1b[31mKilled\x00\n"}]),
    "wrong sums": validation(
        [
            {
                "name": "c",
                "stage": "cluster",
                "nodes": ["gpu1", "gpu2"],
                "text": nccl_text(["gpu1", "gpu2"], 8, 360).replace("       0 ", "       3 ", 1),
            }
        ]
    ),
    "checks": checked(),
    "storage": stored(private("gpu2")),
    "storage without an answer": stored(*(drop("", node) for node in ("gpu1", "gpu2", "gpu3"))),
    "unknown hardware": validation([{"name": "c", "stage": "cluster", "nodes": ["a"], "peak": 9.0}], hardware="none"),
}


@pytest.mark.parametrize("report", CASES.values(), ids=CASES)
def test_written_report_matches_the_published_schema(report: dict[str, Any]) -> None:
    written = json.loads(json.dumps(report))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(written, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert normalised(written)["verdict"] == report["verdict"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "not a validation report"),
        ([], "not a validation report"),
        ({}, "not a validation report"),
        ({"verdict": "PASS", "tests": {}}, "not a validation report"),
        ({"verdict": "PASS", "tests": []}, "schema None is not supported"),
        ({"verdict": "PASS", "tests": [], "schema": 2}, "schema 2 is not supported"),
        ({"verdict": "GOOD", "tests": [], "schema": 1}, "'GOOD' is not one of"),
        ({"verdict": "PASS", "tests": [1], "schema": 1}, r"tests\[0\] is not an object"),
        ({"verdict": "PASS", "tests": [{}], "schema": 1}, r"tests\[0\].name is missing"),
        ({"verdict": "PASS", "tests": [{"name": "a", "stage": "b"}], "schema": 1}, r"tests\[0\].verdict"),
    ],
)
def test_file_that_is_not_a_report_is_refused(data: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        normalised(data)


def test_missing_and_invalid_values_become_none_or_empty() -> None:
    test = {"name": "a\x1b[2J", "stage": "node", "verdict": "PASS", "floor": "12", "at_size": True, "runs": [None, {}]}
    strange = {"drain": [], "resumed": [3, {}], "held": 1, "held_by": "x", "suspected": {}, "unresolved": [None]}
    found = normalised({"schema": 1, "verdict": "PASS", "tests": [test], "left_out": [], **strange})
    assert found["node_changes"] == [("resumed", "", "was drained: ")]
    assert (found["suspected"], found["unresolved"], found["leftovers"]) == ([], [], [])
    assert found["tests"][0]["name"] == "a\ufffd[2J"
    assert (found["tests"][0]["floor"], found["tests"][0]["at_size"]) == (None, None)
    assert (found["left_out"], found["culprits"], found["cluster"]) == ({}, None, "")
    assert found["tests"][0]["runs"][0]["rows"] == []


def test_non_finite_values_are_none() -> None:
    test = {"name": "a", "stage": "node", "verdict": "PASS", "floor": float("inf"), "measured_busbw": float("nan")}
    found = normalised({"schema": 1, "verdict": "PASS", "tests": [test]})["tests"][0]
    assert (found["floor"], found["measured_busbw"]) == (None, None)


@pytest.mark.parametrize(
    ("report", "named"),
    [
        (small(), []),
        (small(slow=0.5), ["gpu3"]),
        (of_pairs(6, slow="gpu3"), ["gpu3"]),
        (of_pairs(3, slow="gpu3"), ["gpu3"]),
        (of_pairs(2, slow="gpu2"), []),
        ({**small(), "culprits": [{"kind": "link", "nodes": ["a", "b"], "reason": "slow"}]}, ["a", "b"]),
        ({**small(slow=0.5), "culprits": []}, []),
    ],
)
def test_culprits_are_the_named_nodes_or_the_unambiguous_ones(report: dict[str, Any], named: list[str]) -> None:
    assert [node for item in culprits(normalised(report)) for node in item["nodes"]] == named


def test_a_curve_is_the_median_over_repeats() -> None:
    report = normalised(small())
    test = report["tests"][0]
    faster = copy.deepcopy(test["runs"][0])
    for row in faster["rows"]:
        row["out_of_place"] = (row["out_of_place"] or 0) + 10
    before = curves(test)["all_reduce"]
    test["runs"].append(faster)
    after = curves(test)["all_reduce"]
    assert [size for size, _ in after["out_of_place"]] == [1 << power for power in range(23, 35)]
    assert after["out_of_place"][-1][1] == pytest.approx(before["out_of_place"][-1][1] + 5)
    assert after["in_place"] == before["in_place"]


def test_each_rail_is_a_series_of_its_own() -> None:
    report = small()
    report["tests"][-1]["rail"] = "mlx5_1"
    assert [test["collective"] for test in normalised(report)["tests"]][-2:] == ["all_reduce", "all_reduce over mlx5_1"]
