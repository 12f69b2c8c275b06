"""Tests of training scaling and its bottleneck on simulated clusters with a known fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.training import (
    read_training,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.training_floors import (
    Floors,
    Reference,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.training_judge import (
    Expected,
    judge_training,
)
from training_samples import ALONE, result, training_text

SCALES = [(1, 1), (2, 1), (4, 1)]
# GB/s of 1 GbE, and the gradient bytes of a model with 25 million parameters.
WIRE, GRADIENTS = 0.125, 1e8
ASKED = Expected(scales=SCALES, backend="nccl", floors=Floors(efficiency=0.8, source="a test"), wire=WIRE)
FAST = [result(1, 1), result(2, 1, shared=0.002), result(4, 1, shared=0.004)]
GIGABIT = [result(1, 1), result(2, 1, shared=0.85), result(4, 1, shared=1.25)]
SLOW_NODE = [result(1, 1), result(2, 1, shared=0.002), result(4, 1, own={"gpu3": 2 * ALONE}, shared=0.004)]
SHARING = [result(1, 1), result(1, 8, own={"gpu1": 2 * ALONE}, shared=0.003)]


def judged(*runs: Any, asked: Expected = ASKED) -> dict[str, Any]:  # noqa: ANN401 - results, and runs without one
    return judge_training(read_training(training_text(*runs)), asked).answer("training")


def test_fast_network_passes_and_reports_the_values() -> None:
    answer = judged(*FAST)
    assert (answer["verdict"], answer["source"]) == ("PASS", "a test")
    assert answer["reason"] == "4 nodes: 2462 samples/s, 9.62 TFLOP/s per GPU, scaling efficiency 96% with 4 ranks"
    rows = answer["training"]["rows"]
    assert [row["label"] for row in rows] == ["1 GPU", "2 nodes", "4 nodes"]
    assert [row["ranks"] for row in rows] == [1, 2, 4]
    assert rows[0]["efficiency"] == 1
    assert rows[2]["efficiency"] == pytest.approx(0.1 / 0.104)
    assert answer["findings"] == []


def test_gigabit_network_is_the_bottleneck_and_no_node_is_named() -> None:
    answer = judged(*GIGABIT)
    assert answer["verdict"] == "FAIL"
    assert answer["reason"] == (
        "4 nodes: scaling efficiency 7% with 4 ranks, floor 80%: network-bound: all-reduce takes 1.25e+03 ms of a step "
        "of 1.35e+03 ms (the network requires at least 1.2e+03 ms), 100% of the lost time"
    )
    assert [row["cause"] for row in answer["training"]["rows"]] == ["", "communication", "communication"]
    assert answer["training"]["rows"][1]["wire_seconds"] == pytest.approx(GRADIENTS / (WIRE * 1e9))
    assert answer["findings"][0].startswith("2 nodes: scaling efficiency 11% with 2 ranks, floor 80%: network-bound")


def test_slow_node_is_named_and_the_network_is_not_blamed() -> None:
    answer = judged(*SLOW_NODE)
    assert answer["verdict"] == "FAIL"
    assert "slow node: gpu3 delays each step by 100 ms, 96% of the lost time" in answer["reason"]
    assert "network-bound" not in answer["reason"]
    assert answer["findings"] == ["4 nodes: gpu3 is far slower than the others for the same work"]


def test_a_slow_node_is_reported_even_if_the_floor_is_reached() -> None:
    runs = [*FAST[:2], result(4, 1, own={"gpu3": 1.3 * ALONE})]
    answer = judged(*runs, asked=Expected(SCALES, "nccl", floors=Floors(efficiency=0.5)))
    assert answer["verdict"] == "PASS"
    assert answer["findings"] == ["4 nodes: gpu3 is far slower than the others for the same work"]


def test_competing_ranks_of_one_node_are_reported() -> None:
    answer = judged(*SHARING, asked=Expected([(1, 1), (1, 8)], "nccl", floors=Floors(efficiency=0.8)))
    assert answer["verdict"] == "FAIL"
    assert answer["reason"].startswith(
        "1 node: scaling efficiency 49% with 8 ranks, floor 80%: ranks of one node compete"
    )


def test_cause_is_unknown_without_measurements() -> None:
    runs = [result(1, 1), result(2, 1, shared=0.85, all_reduce_seconds=None, hosts=[])]
    answer = judged(*runs, asked=Expected(SCALES[:2], "nccl", floors=Floors(efficiency=0.8)))
    assert answer["verdict"] == "FAIL"
    assert "the cause was not measured" in answer["reason"]


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([(1, 1, 3, "train_ddp: no torch: No module named 'torch'; install python3-torch"), *FAST[1:]], "no torch: No"),
        ([*FAST[:2], (4, 1, 3, "")], "4 nodes: torch is missing (validation_training_image"),
        ([*FAST[:2]], "4 nodes: did not run"),
        (
            [*FAST[:2], (4, 1, 75, "train_ddp: rank 1: a rank was lost: peer")],
            "exited with code 75 without a result: rank",
        ),
        (
            [*FAST[:2], result(4, 1, backend="gloo")],
            "4 nodes: used the backend gloo (expected nccl): torch finds no GPU",
        ),
        ([*FAST[:2], {**result(4, 1), "world_size": 4, "hosts": [], "step_seconds": None}], "nothing was measured"),
    ],
)
def test_missing_data_is_inconclusive_with_a_remedy(runs: list[Any], words: str) -> None:
    answer = judged(*runs)
    assert answer["verdict"] == "INCONCLUSIVE"
    assert words in answer["reason"]


def test_fewer_ranks_than_requested_are_inconclusive() -> None:
    text = training_text(*FAST).replace('"world_size": 4', '"world_size": 3')
    answer = judge_training(read_training(text), ASKED).answer("training")
    assert answer["verdict"] == "INCONCLUSIVE"
    assert answer["reason"] == "4 nodes: 3 rank(s) on 4 node(s) took part (expected 4 rank(s) on 4 node(s))"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"final_loss": 0.5}, "4 nodes: the model did not learn: the loss went from 0.36 to 0.5"),
        ({"final_loss": float("nan")}, "4 nodes: the loss is not a number"),
    ],
)
def test_training_without_learning_fails_at_any_speed(changes: dict[str, Any], words: str) -> None:
    answer = judged(*FAST[:2], result(4, 1, **changes))
    assert (answer["verdict"], answer["reason"]) == ("FAIL", words)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"final_loss": 0.0104}, "PASS", "4 nodes: "),
        (
            {"final_loss": 0.0106},
            "FAIL",
            "1 GPU: the loss is 0.0106 after 200 steps (at most 0.0105, from the reference)",
        ),
        ({"final_loss": 0.3}, "FAIL", "1 GPU: the loss is 0.3 after 200 steps (at most 0.0105, from the reference)"),
        ({"final_loss": 0.3, "steps": 120}, "INCONCLUSIVE", "1 GPU: 120 of 200 steps were completed, so the loss"),
    ],
)
def test_single_rank_must_reach_the_reference_loss(changes: dict[str, Any], verdict: str, words: str) -> None:
    asked = replace(ASKED, reference=Reference(0.01, 0.05, 200))
    # More ranks process more samples per step, so their loss curve differs.
    answer = judged(result(1, 1, **changes), result(2, 1, final_loss=0.2), result(4, 1, final_loss=0.3), asked=asked)
    assert answer["verdict"] == verdict
    assert answer["reason"].startswith(words)
    assert answer["training"]["loss_limit"] == pytest.approx(0.0105)
    assert judged(result(1, 1, **changes), *FAST[1:])["verdict"] == "PASS"


def test_short_run_need_not_reach_the_loss() -> None:
    assert judged(*FAST[:2], result(4, 1, final_loss=0.5, steps=9))["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("asked", "verdict", "words"),
    [
        (Expected(SCALES, "nccl"), "INCONCLUSIVE", "no floor is known for the scaling efficiency: set training in"),
        (Expected(SCALES[:1], "nccl"), "INCONCLUSIVE", "a single rank has no scaling"),
        (Expected(SCALES[:1], "nccl", floors=Floors(rate=600)), "PASS", "1 GPU: 640 samples/s"),
        (Expected(SCALES, "nccl", floors=Floors(efficiency=0.8, rate=700)), "FAIL", "1 GPU: 640 samples/s, floor 700"),
    ],
)
def test_floors(asked: Expected, verdict: str, words: str) -> None:
    answer = judged(*FAST, asked=asked)
    assert answer["verdict"] == verdict
    assert words in answer["reason"]


def test_disturbed_baseline_is_inconclusive() -> None:
    answer = judged(result(1, 1, own={"gpu1": 2 * ALONE}), *FAST[1:])
    assert answer["verdict"] == "INCONCLUSIVE"
    assert "4 nodes: scaling efficiency 192% with 4 ranks: something else slowed down" in answer["reason"]
    assert "slowed down the run with a single rank" in answer["reason"]
    assert "validation_training_seconds" in answer["reason"]


def test_missed_floor_fails_even_with_a_disturbed_baseline() -> None:
    slow = judged(result(1, 1, own={"gpu1": 2 * ALONE}), *FAST[1:], asked=replace(ASKED, floors=Floors(efficiency=3)))
    assert slow["verdict"] == "FAIL"
    assert any("slowed down" in words for words in slow["findings"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "busbar-training {}",
        "# busbar scale: 1 1\nbusbar-training {",
        "# busbar scale: 1 1\nbusbar-training [1]",
        "# busbar scale: 1 1\nbusbar-training " + "[" * 100_000,
        '# busbar scale: 1 1\nbusbar-training {"hosts": 3, "world_size": "x", "step_seconds": -1, "backend": null}',
        "# busbar scale: 99999999 1\n# busbar exit: 1 1 0",
    ],
)
def test_invalid_output_never_passes(text: str) -> None:
    answer = judge_training(read_training(text), ASKED).answer("training")
    assert answer["verdict"] in {"INCONCLUSIVE", "FAIL"}
    assert answer["training"]["rows"] == []


PEAKED = Floors(tflops=9, peak=100, source="a test")


@pytest.mark.parametrize(
    ("floors", "changes", "verdict", "words"),
    [
        (PEAKED, {}, "PASS", "1 GPU: 640 samples/s, 10 TFLOP/s per GPU"),
        (replace(PEAKED, tflops=11), {}, "FAIL", "1 GPU: 10 TFLOP/s, floor 11 (peak 100)"),
        (
            replace(PEAKED, tflops=11),
            {"data_seconds": 0.04},
            "FAIL",
            "1 GPU: 10 TFLOP/s, floor 11 (peak 100); it waits for samples for 40 ms of a step of 100 ms",
        ),
        (PEAKED, {"precision": "fp32"}, "INCONCLUSIVE", "1 GPU: computed in fp32 (expected bf16"),
        (PEAKED, {"model": "mlp"}, "INCONCLUSIVE", "1 GPU: trained the model mlp (expected gpt)"),
        (PEAKED, {"tflops_per_rank": None}, "INCONCLUSIVE", "1 GPU: TFLOP/s were not measured"),
    ],
)
def test_rank_must_reach_its_share_of_the_peak(
    floors: Floors, changes: dict[str, Any], verdict: str, words: str
) -> None:
    asked = Expected(SCALES[:1], "nccl", model="gpt", floors=floors)
    answer = judged(result(1, 1, **changes), asked=asked)
    assert answer["verdict"] == verdict
    assert answer["reason"].startswith(words)
    figures = answer["training"]
    assert (figures["tflops_floor"], figures["peak_tflops"]) == (floors.tflops, 100)
    if verdict != "INCONCLUSIVE":
        (row,) = figures["rows"]
        assert (row["peak_share"], row["tokens_per_second"]) == (pytest.approx(0.1), pytest.approx(640 * 1024))


def test_efficiency_floor_is_derived_from_the_network_floor_if_not_declared() -> None:
    """100 MB of gradients at 0.1 GB/s add 1 s to a step of 0.1 s: two ranks reach 9%, and the floor is a tenth less."""
    floors = Floors(inside=10, between=0.1)
    asked = replace(ASKED, floors=floors)
    answer = judged(result(1, 1), result(2, 1, shared=0.5), result(4, 1, shared=0.7), asked=asked)
    rows = answer["training"]["rows"]
    assert rows[0]["efficiency_floor"] is None
    assert rows[1]["efficiency_floor"] == pytest.approx(0.9 * 0.1 / (0.1 + 1.0))
    assert rows[2]["efficiency_floor"] == pytest.approx(0.9 * 0.1 / (0.1 + 1.5))
    # A network at twice its floor passes, one at half its floor fails.
    assert answer["verdict"] == "PASS"
    slow = [GIGABIT[0], result(2, 1, shared=1.9), result(4, 1, shared=2.9)]
    assert judged(*slow, asked=asked)["verdict"] == "FAIL"
    # Within a node the floor of the node's own links applies; without one there is no floor.
    node = Expected([(1, 1), (1, 8)], "nccl", floors=floors)
    runs = [result(1, 1), result(1, 8, shared=0.01)]
    inside = judged(*runs, asked=node)["training"]["rows"][1]
    assert inside["efficiency_floor"] == pytest.approx(0.9 * 0.1 / (0.1 + 2 * 7 / 8 * 1e8 / 10e9))
    unknown = judged(*runs, asked=replace(node, floors=Floors(between=0.1)))
    assert (unknown["verdict"], "no floor is known" in unknown["reason"]) == ("INCONCLUSIVE", True)


def test_ranks_waiting_for_samples_are_not_network_bound() -> None:
    runs = [result(1, 1), result(1, 8, step_seconds=0.3, data_seconds=0.19, samples_per_second=8 * 64 / 0.3)]
    answer = judged(*runs, asked=Expected([(1, 1), (1, 8)], "nccl", floors=Floors(efficiency=0.8)))
    assert answer["verdict"] == "FAIL"
    assert (
        "the samples arrive too slowly: a rank waits 190 ms longer for samples than a single rank" in answer["reason"]
    )
