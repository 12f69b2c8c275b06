# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge how well a training run scales with the number of nodes, and find the bottleneck.

A step of many ranks takes at least as long as a step of one rank; the difference is lost time. To find its causes, the
program also measures steps without communication on all ranks at the same time.

- communication: step time minus the slowest rank's computation; all ranks wait for the network.
- loader: time that a rank waits for its samples, minus that of a single rank.
- slow node: the slowest rank's computation minus the median rank's.
- sharing: the median rank's computation minus that of one rank with a node to itself (memory, power, cores).

The largest part is reported as the cause. Sources: DDP's all-reduce is a barrier, so all ranks wait for the slowest (Li
et al., PyTorch Distributed, VLDB 2020, section 3.2); in a ring of n ranks, each sends 2(n-1)/n of the gradients
(nccl-tests doc/PERFORMANCE.md), which gives the minimum time on the network.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ...common.option_names_in_messages import option
from .stage_verdict import Fault, Judged
from .training_floors import Floors, Reference, efficiency_floor, gap_of_loss, wrong_loss

_CAUSES = {
    "communication": "network-bound",
    "loader": "the samples arrive too slowly",
    "slow node": "slow node",
    "sharing": "ranks of one node compete for resources",
}
_NO_TORCH = 3
# Above this efficiency, something else slowed down the run with a single rank: n ranks cannot exceed n times one rank.
_TOO_GOOD = 1.2
# A node that takes this many times the median for the same work is reported even if the run passes.
_SLOW = 1.25
_FEWEST = 3
# Waiting for samples is reported as a cause if it takes at least this fraction of a step.
_MUCH = 0.2
_GB = 1e9
_MOST = 100
_TWO = 2


@dataclass(frozen=True)
class Expected:
    """The limits for judging a training run.

    Attributes:
        scales: nodes and ranks per node of each requested run, the single rank first.
        backend: nccl or gloo; the required backend of the ranks.
        model: the required model; empty for any.
        floors: the throughput floors.
        wire: maximum GB/s that leave a node, None if unknown.
        reference: the reference loss of one rank.
    """

    scales: list[tuple[int, int]]
    backend: str
    model: str = ""
    floors: Floors = field(default_factory=Floors)
    wire: float | None = None
    reference: Reference = field(default_factory=Reference)


def scales_of(nodes: int, ranks: int) -> list[tuple[int, int]]:
    """Return the nodes and ranks per node of each run: one rank, one node, 2, 4, 8, … and all nodes."""
    found = [(1, 1), (1, ranks)]
    count = _TWO
    while count < nodes:
        found.append((count, ranks))
        count *= 2
    return list(dict.fromkeys([*found, (nodes, ranks)]))


def judge_training(scales: list[dict[str, Any]], expected: Expected) -> Judged:
    """Return the result of a training run; faults take precedence over missing results, and these over speed."""
    by_scale = {(item["nodes"], item["ranks_per_node"]): item for item in scales}
    gap_of = {scale: _gap(scale, by_scale.get(scale), expected) for scale in expected.scales}
    gaps = [words for words in gap_of.values() if words]
    wrong = [words for scale in expected.scales if (words := _wrong(scale, by_scale.get(scale), expected))]
    good = {scale: by_scale[scale]["result"] for scale, gap in gap_of.items() if not gap}
    base = good.get(expected.scales[0])
    rows = [_row(scale, result, base, expected) for scale, result in good.items()]
    slow = [words for row in rows if (words := _below(row, expected))]
    ran = list(good.values())
    return Judged(
        result=_reached(rows, expected) if rows else "",
        faults=[Fault("", words) for words in wrong or ([] if gaps else slow[-1:])],
        gaps=gaps,
        doubt=_doubt(rows, expected),
        notes=[*slow, *(words for row in rows for words in _odd(row))],
        source=expected.floors.source,
        program="train_ddp with torch" if ran else "",
        version=ran[-1]["torch"] if ran else "",
        most=_MOST,
        figures={
            "model": base["model"] if base else expected.model,
            "precision": base["precision"] if base else "",
            "efficiency_floor": expected.floors.efficiency,
            "rate_floor": expected.floors.rate,
            "tflops_floor": expected.floors.tflops,
            "peak_tflops": expected.floors.peak,
            "reference_loss": expected.reference.loss,
            "loss_limit": expected.reference.most,
            "rows": rows,
        },
    )


def _reached(rows: list[dict[str, Any]], expected: Expected) -> str:
    last = rows[-1]
    text = f"{last['label']}: {last['samples_per_second']:.4g} samples/s"
    if last["tflops_per_rank"] is not None and expected.backend == "nccl":
        text += f", {last['tflops_per_rank']:.3g} TFLOP/s per GPU"
    if last["efficiency"] is not None and len(rows) > 1:
        text += f", scaling efficiency {last['efficiency']:.0%} with {last['ranks']} ranks"
    return text


def _odd(row: dict[str, Any]) -> list[str]:
    """Return further findings about a scale."""
    slow = f"{row['label']}: {', '.join(row['slow_nodes'])} is far slower than the others for the same work"
    return [*filter(None, [_disturbed(row)]), *([slow] if row["slow_nodes"] else [])]


def _doubt(rows: list[dict[str, Any]], expected: Expected) -> str:
    """Return why the result is inconclusive although no value is below a floor; otherwise empty."""
    disturbed = [words for row in rows if (words := _disturbed(row))]
    if disturbed:
        return f"{disturbed[-1]}; raise {option('training_seconds')} and run again"
    if any(row["efficiency_floor"] is None for row in rows if row["ranks"] > 1):
        return (
            "no floor is known for the scaling efficiency: set training in the hardware profile, or "
            f"{option('training_efficiency')}"
        )
    if expected.floors.rate is None and expected.floors.tflops is None and len(rows) == 1:
        return (
            "a single rank has no scaling, and no floor is known for its speed: set training in the hardware "
            f"profile, or {option('training_tflops')}"
        )
    return ""


def _label(scale: tuple[int, int]) -> str:
    nodes, ranks = scale
    if nodes > 1:
        return f"{nodes} nodes"
    return "1 GPU" if ranks == 1 else "1 node"


def _gap(scale: tuple[int, int], found: dict[str, Any] | None, expected: Expected) -> str:
    """Return why a run has no valid result; empty if it has one."""
    if found is None:
        words = "did not run"
    elif found["result"] is None and found["code"] == _NO_TORCH:
        words = f"{found['message'] or 'torch is missing'} ({option('training_image')}, or the nodes' packages)"
    elif found["result"] is None:
        ended = "did not finish" if found["code"] is None else f"exited with code {found['code']} without a result"
        words = f"the training program {ended}{': ' if found['message'] else ''}{found['message']}"
    else:
        words = _strange(scale, found["result"], expected) or gap_of_loss(found["result"], expected.reference)
    return f"{_label(scale)}: {words}" if words else ""


def _strange(scale: tuple[int, int], result: dict[str, Any], expected: Expected) -> str:
    """Return how a result differs from the request; empty if it matches."""
    nodes, ranks = scale
    if (result["nodes"], result["world_size"]) != (nodes, nodes * ranks):
        took = f"{result['world_size']} rank(s) on {result['nodes']} node(s) took part"
        return f"{took} (expected {nodes * ranks} rank(s) on {nodes} node(s))"
    if result["backend"] != expected.backend:
        return f"used the backend {result['backend'] or 'unknown'} (expected {expected.backend}): torch finds no GPU"
    if expected.model and result["model"] != expected.model:
        return f"trained the model {result['model'] or 'unknown'} (expected {expected.model})"
    if expected.floors.tflops and expected.floors.peak and result["precision"] != "bf16":
        return f"computed in {result['precision'] or 'unknown precision'} (expected bf16, for which the floor is set)"
    if not result["step_seconds"] or not result["samples_per_second"]:
        return "nothing was measured"
    return "TFLOP/s were not measured" if expected.floors.tflops and result["tflops_per_rank"] is None else ""


def _wrong(scale: tuple[int, int], found: dict[str, Any] | None, expected: Expected) -> str:
    """Return why the loss of a run is wrong; empty if it is correct."""
    result = (found or {}).get("result")
    words = wrong_loss(result, expected.reference) if result and result["world_size"] else ""
    return f"{_label(scale)}: {words}" if words else ""


def _row(
    scale: tuple[int, int], result: dict[str, Any], base: dict[str, Any] | None, expected: Expected
) -> dict[str, Any]:
    """Return the report values of a scale; times in seconds per step."""
    ranks = result["world_size"]
    ideal = base["samples_per_second"] * ranks if base else None
    efficiency = result["samples_per_second"] / ideal if ideal else None
    lost = _lost(result, base) if base and ranks > 1 else {}
    total = sum(lost.values())
    cause = max(lost, key=lambda key: lost[key]) if total > 0 else ""
    step, shared, work = result["step_seconds"], result["all_reduce_seconds"], result["tflops_per_rank"]
    tokens, peak = result["tokens_per_sample"], expected.floors.peak
    return {
        "label": _label(scale),
        "nodes": scale[0],
        "ranks": ranks,
        "samples_per_second": result["samples_per_second"],
        "ideal": ideal,
        "efficiency": efficiency,
        "efficiency_floor": efficiency_floor(expected.floors, scale[0], result, base) if ranks > 1 else None,
        "tokens_per_second": tokens * result["samples_per_second"] if tokens else None,
        "tflops_per_rank": work,
        "peak_share": work / peak if work and peak else None,
        "step_seconds": step,
        "data_seconds": result["data_seconds"],
        "compute_seconds": result["compute_seconds"],
        "all_reduce_seconds": shared,
        "all_reduce_share": None if shared is None else shared / step,
        "wire_seconds": _wire_seconds(scale, result, expected),
        "lost_seconds": lost,
        "cause": cause if efficiency is not None and efficiency < 1 else "",
        "slow_nodes": _slow_nodes(result),
        "losses": result["losses"],
    }


def _lost(result: dict[str, Any], base: dict[str, Any]) -> dict[str, float]:
    """Return the seconds per step lost compared with a single rank, by cause; unmeasured causes are left out."""
    own = [host["compute_seconds"] for host in result["hosts"] if host["compute_seconds"] is not None]
    alone = base["compute_seconds"]
    if not own or alone is None or result["all_reduce_seconds"] is None:
        return {}
    return {
        "communication": result["all_reduce_seconds"],
        "loader": max(0.0, (result["data_seconds"] or 0.0) - (base["data_seconds"] or 0.0)),
        "slow node": max(0.0, max(own) - median(own)),
        "sharing": max(0.0, median(own) - alone),
    }


def _slow_nodes(result: dict[str, Any]) -> list[str]:
    """Return the nodes that take far longer than the median for the same work; empty with two nodes."""
    own = {host["node"]: host["compute_seconds"] for host in result["hosts"] if host["compute_seconds"]}
    if len(own) < _FEWEST:
        return []
    middle = median(own.values())
    return sorted(node for node, seconds in own.items() if seconds > _SLOW * middle)


def _wire_seconds(scale: tuple[int, int], result: dict[str, Any], expected: Expected) -> float | None:
    """Return the minimum time to transfer the gradients; None inside a node or if the network rate is unknown."""
    nodes, size = scale[0], result["gradient_bytes"]
    if nodes == 1 or not expected.wire or not size:
        return None
    return float(2 * (nodes - 1) / nodes * size / (expected.wire * _GB))


def _below(row: dict[str, Any], expected: Expected) -> str:
    """Return how far a scale falls below its floor, and why; empty if it reaches the floor."""
    if row["ranks"] == 1:
        return _too_slow(row, expected.floors)
    floor = row["efficiency_floor"]
    if floor is None or row["efficiency"] is None or row["efficiency"] >= floor:
        return ""
    words = f"{row['label']}: scaling efficiency {row['efficiency']:.0%} with {row['ranks']} ranks, floor {floor:.0%}"
    return f"{words}: {_why(row)}"


def _too_slow(row: dict[str, Any], floors: Floors) -> str:
    """Return how far a single rank falls below its floor; empty if it reaches the floor."""
    rate, work = row["samples_per_second"], row["tflops_per_rank"]
    if floors.rate is not None and rate < floors.rate:
        words = f"{row['label']}: {rate:.4g} samples/s, floor {floors.rate:.4g}"
    elif floors.tflops is not None and work is not None and work < floors.tflops:
        words = f"{row['label']}: {work:.3g} TFLOP/s, floor {floors.tflops:.3g}"
        words += f" (peak {floors.peak:.4g})" if floors.peak else ""
    else:
        return ""
    waits = row["data_seconds"] or 0.0
    if waits > _MUCH * row["step_seconds"]:
        words += f"; it waits for samples for {_ms(waits)} of a step of {_ms(row['step_seconds'])}"
    return words


def _disturbed(row: dict[str, Any]) -> str:
    """Return a message if the measured speed of the single rank is too low; otherwise empty."""
    if row["efficiency"] is None or row["efficiency"] <= _TOO_GOOD:
        return ""
    words = f"{row['label']}: scaling efficiency {row['efficiency']:.0%} with {row['ranks']} ranks"
    return f"{words}: something else slowed down the run with a single rank"


def _why(row: dict[str, Any]) -> str:
    """Return a description of the main cause of lost time."""
    if not row["cause"]:
        return "the cause was not measured"
    lost, cause = row["lost_seconds"], row["cause"]
    share = lost[cause] / sum(lost.values())
    words = f"{_CAUSES[cause]}: "
    if cause == "communication":
        words += f"all-reduce takes {_ms(lost[cause])} of a step of {_ms(row['step_seconds'])}"
        if row["wire_seconds"]:
            words += f" (the network requires at least {_ms(row['wire_seconds'])})"
    elif cause == "slow node":
        who = ", ".join(row["slow_nodes"]) or "one of the nodes"
        words += f"{who} delays each step by {_ms(lost[cause])}"
    elif cause == "loader":
        words += f"a rank waits {_ms(lost[cause])} longer for samples than a single rank"
    else:
        words += f"the computation of a rank takes {_ms(lost[cause])} longer than that of a single rank"
    return f"{words}, {share:.0%} of the lost time"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
