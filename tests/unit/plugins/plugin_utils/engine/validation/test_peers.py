"""Tests of the comparison of similar tests: stragglers above their floor, and slow message sizes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.junit import junit
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.page_sections import test_facts as facts_of
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.bandwidth_curve import (
    Curve,
    behind_peers,
    curve_of,
    dips,
    median_and_tolerance,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import typed
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.planned_tests import planned_test
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.start_searches import calls_for_search
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import report
from jsonschema import Draft202012Validator
from report_samples import nccl_text
from validation_samples import job_entry, validation_options

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import Report

ROOT = Path(__file__).parents[6]
SCHEMA = json.loads((ROOT / "roles/validation/files/report.schema.json").read_text())
CORPUS = ROOT.parent / "shared/nccl/corpus"


def validated(peaks: dict[str, float], *, stages: tuple[str, ...] = ("node",), **changes: Any) -> Report:  # noqa: ANN401
    """Return the report of a complete validation; a test reaches the lowest peak of its nodes."""
    options = {**validation_options(list(peaks), straggler_limit=5, stages=list(stages)), **changes}
    state = None
    while (step := next_step(options, state, 1000.0))["tests"]:
        entries = [job_entry(test["name"], test["job"]["nodes"]) for test in step["tests"]]
        texts: list[str | None] = []
        for test in step["tests"]:
            nodes = test["job"]["nodes"]
            least = min(peaks[node] for node in nodes)
            figure = least if len(nodes) == 1 else 365.0 * least / 480
            figure = changes_of_rail(test["rail"], figure)
            texts.append(nccl_text(nodes, 8, figure))
        state = with_results(options, state, step, {"tests": entries, "node_reasons": []}, texts)
    assert state is not None
    return report(typed(options), state, step["stopped"])


def changes_of_rail(rail: str, figure: float) -> float:
    return figure if not rail else 39.0 if rail == "mlx5_3" else 46.0


def fleet(count: int, **others: float) -> dict[str, float]:
    return {f"gpu{number}": 478.0 + number % 3 for number in range(1, count + 1)} | others


def test_straggler_above_its_floor_fails_and_its_node_is_named() -> None:
    found = validated(fleet(5, gpu3=440.0), floor_gbs=400)
    assert found["verdict"] == "FAIL"
    assert [(item["kind"], item["nodes"]) for item in found["culprits"]] == [("node", ["gpu3"])]
    (test,) = [test for test in found["tests"] if test["verdict"] == "FAIL"]
    assert test["reason"].startswith("straggler: 440 GB/s is 8.")
    assert "% below the median of 5 similar tests, 479 GB/s (allowed 6.1 %); 440 GB/s at " in test["reason"]
    assert test["reason"].endswith("floor 400")
    assert test["peers"]["count"] == 5
    # The limit is 5 % of 479 plus noise of 3.5 x 1.4826 x 1.
    assert test["peers"]["least"] == pytest.approx(479 * 0.95 - 3.5 * 1.4826, abs=0.5)
    assert not calls_for_search(test)


@pytest.mark.parametrize(
    ("peaks", "changes", "verdict"),
    [
        # Four nodes are too few to determine the normal range.
        (fleet(4, gpu3=440.0), {}, "PASS"),
        (fleet(5, gpu3=440.0), {"straggler_limit": 0}, "PASS"),
        (fleet(5, gpu3=440.0), {"straggler_limit": 8}, "PASS"),
        (fleet(5, gpu3=460.0), {}, "PASS"),
        # Noise widens the tolerance: 3.5 robust deviations are 15 % here.
        ({f"gpu{n}": value for n, value in enumerate((470, 490, 430, 480, 455, 440), 1)}, {}, "PASS"),
    ],
)
def test_ranks_that_are_not_stragglers(peaks: dict[str, float], changes: dict[str, Any], verdict: str) -> None:
    assert validated(peaks, **{"floor_gbs": 400, **changes})["verdict"] == verdict


def test_uniformly_slow_fleet_fails_by_the_floor() -> None:
    found = validated({f"gpu{number}": 350.0 for number in range(1, 7)}, floor_gbs=400)
    assert {test["verdict"] for test in found["tests"]} == {"FAIL"}
    assert all(test["reason"].startswith("too slow") for test in found["tests"])


def test_straggler_is_excluded_from_later_stages() -> None:
    found = validated(fleet(6, gpu4=430.0), stages=("node", "cluster"), floor_gbs=300)
    (whole,) = [test for test in found["tests"] if test["stage"] == "cluster"]
    assert "gpu4" not in whole["nodes"]


def test_search_pairs_are_not_compared_as_peers() -> None:
    nodes = [f"gpu{number}" for number in range(1, 13)]
    options = typed(validation_options(nodes, straggler_limit=5, stages=["pair"], floor_gbs=300))
    pairs = [nodes[place : place + 2] for place in range(0, 12, 2)]
    planned = [planned_test(options, f"pair-{one}-{two}", "pair", [one, two]) for one, two in pairs]
    entries = [job_entry(test["name"], test["job"]["nodes"]) for test in planned]
    texts: list[str | None] = [nccl_text(pair, 8, 330.0 if "gpu3" in pair else 365.0) for pair in pairs]
    step: Any = {"tests": planned, "search": True}
    tests = with_results(options, None, step, {"tests": entries, "node_reasons": []}, texts)["tests"]
    assert {test["verdict"] for test in tests} == {"PASS"}
    assert [test["name"] for test in tests if test["findings"]] == ["pair-gpu3-gpu4"]
    assert tests[1]["findings"][-1].startswith(
        "behind its peers: 330 GB/s is 9.6 % below the median of 6 similar tests, 365"
    )


def test_slow_rail_among_faster_ones_fails_without_a_search() -> None:
    rails = [f"mlx5_{number}" for number in range(6)]
    found = validated(fleet(2), stages=("cluster",), floor_gbs=300, rails=rails)
    tests = {test["name"]: test for test in found["tests"]}
    assert tests["rail-mlx5_3"]["verdict"] == "FAIL"
    assert tests["rail-mlx5_3"]["reason"].startswith("straggler: 39 GB/s is 15.2 % below the median of")
    assert (found["verdict"], found["search_rounds"]) == ("FAIL", 0)
    assert sum(test["verdict"] == "PASS" for test in found["tests"]) == 6


def test_straggler_is_shown_in_report_page_and_junit() -> None:
    found = validated(fleet(5, gpu3=440.0), floor_gbs=400)
    Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(found)))
    read = normalised(json.loads(json.dumps(found)))
    slow = next(test for test in read["tests"] if test["verdict"] == "FAIL")
    assert ("Peers", "5 similar tests, median 479 GB/s, at least 449.9 expected") in facts_of(slow)
    assert "straggler: 440 GB/s" in junit(read)
    assert (
        normalised({**json.loads(json.dumps(found)), "tests": [{**found["tests"][0], "peers": "many"}]})["tests"][0][
            "peers"
        ]
        is None
    )


def test_healthy_nodes_with_normal_noise_are_rarely_blamed() -> None:
    """10,000 healthy fleets of 5 to 100 nodes with 1 or 2 % noise."""
    chance, blamed = random.Random(7), 0  # noqa: S311 - no secret
    for _trial in range(10_000):
        noise = chance.choice((4.8, 9.6))
        values = [chance.gauss(480, noise) for _node in range(chance.randint(5, 100))]
        middle, less = median_and_tolerance(values, proof=True)
        blamed += any(value < middle - less for value in values)
    assert blamed <= 1


CURVE: Curve = {8 << 20: (100.0, 84.0), 16 << 20: (140.0, 120.0), 32 << 20: (200.0, 168.0), 64 << 20: (350.0, 192.0)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({32 << 20: (400.0, 70.0)}, ["dip at 32 MiB: 70 GB/s, but 120 and 192 GB/s at the adjacent sizes"]),
        ({32 << 20: (260.0, 90.0)}, []),
        (
            {64 << 20: (900.0, 80.0)},
            ["bandwidth drops at the largest size: 80 GB/s at 64 MiB, but 168 GB/s at a smaller one"],
        ),
        # Times of a few microseconds vary too much.
        ({1 << 10: (9.0, 0.2), 2 << 10: (40.0, 0.05), 4 << 10: (9.0, 0.8)}, []),
    ],
)
def test_dips(changes: Curve, words: list[str]) -> None:
    assert dips(dict(sorted({**CURVE, **changes}.items()))) == words


def test_sizes_slower_than_the_peers_are_reported() -> None:
    small = {8: (20.0, 0.001), 1 << 10: (21.0, 0.1)}
    whole = {**small, **CURVE}
    late = {**whole, 8: (36.0, 0.0006), 16 << 20: (190.0, 88.0)}
    said = behind_peers(late, [whole] * 5 + [late])
    assert said == [
        "latency at 8 B: 36 us (the median of 6 similar tests: 20 us)",
        "busbw at 16 MiB: 88 GB/s (the median of 6 similar tests: 120 GB/s)",
    ]
    assert behind_peers(whole, [whole] * 5 + [late]) == []
    # The largest size is covered by the verdict.
    assert behind_peers({**whole, 64 << 20: (999.0, 9.0)}, [whole] * 6) == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no published outputs in {CORPUS}")
def test_only_two_published_curves_have_dips() -> None:
    dipped = {
        path.name[:3]
        for path in sorted(CORPUS.glob("*.txt"))
        for run in parse_text(path.read_text(errors="replace"))["runs"]
        if run["outcome"] == "ok" and dips(curve_of([run]))
    }
    assert dipped == {"083", "127"}
