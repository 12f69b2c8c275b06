# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge whether nodes sustain the load of a soak: constant speed, no errors, complete monitoring.

A wrong result, an Xid, an uncorrectable error and a lost GPU are faults even if other data is missing. A loss of speed
is a fault only with at least four iterations; the first tenth of the iterations is compared with the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from ...common.option_names_in_messages import option
from ...nccl.parse_output import parse_text
from ..nccl_judge import FAIL, ONE_RANK, PASS
from ..nccl_judge import Expected as ExpectedRuns
from ..nccl_judge import judge as judge_runs
from .gemm_results import compared, device_name, gaps_of, read_products
from .soak_samples import soak_figures, watched_faults
from .stage_verdict import Fault, Judged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .gemm_results import Rank
    from .soak_samples import Ran, Soaked

_FEWEST_TURNS = 4
_TENTH = 10
_MOST_GAP = 4
# Required fraction of the duration: the last iteration may be cut short, and job steps start with a delay.
_ENOUGH = 0.95
_ANY_SPEED = 1e-12
# Seconds since 1970 and a speed.
Speeds = list[tuple[float, float]]


@dataclass(frozen=True)
class Expected:
    """The limits of a soak's verdict.

    Attributes:
        per_node: ranks on each node.
        what: gpu or cpu.
        seconds: required duration.
        interval: seconds between two samples of a node.
        spread: tolerated deviation below the median of a kind of device, as a fraction.
        decay: tolerated loss of speed from the first to the last tenth of the iterations, as a fraction.
        kernel_log: whether the kernel log must be readable.
    """

    per_node: int
    what: str
    seconds: float
    interval: float
    spread: float
    decay: float
    kernel_log: bool


def expected_of(own: Mapping[str, Any], ranks: int, what: str) -> Expected:
    """Return the limits set by the options, for the given number of ranks on each node."""
    seconds, spread, decay = int(own["minutes"] * 60), own["spread"] / 100, own["decay"] / 100
    return Expected(ranks, what, seconds, own["interval"], spread, decay, own["kernel_log"])


@dataclass
class _Measured:
    """Speeds by iteration, faults and gaps of GEMM and all-reduce; `alone` is set if there is only one rank."""

    busbw: Speeds = field(default_factory=list)
    devices: dict[tuple[str, int], Speeds] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    version: str | None = None
    alone: bool = False


def judge_soak(soaked: Soaked, nodes: list[str], expected: Expected) -> Judged:
    """Return the result of the soak."""
    found = _Measured(gaps=_gaps(soaked, nodes, expected))
    for ran in soaked.ran:
        if ran.kind == "all_reduce" and ran.code is not None:
            _all_reduce(ran, nodes, expected, found)
    _products([ran for ran in soaked.ran if ran.kind == "gemm"], nodes, expected, found)
    slower, too_few = _decayed(found, expected)
    watched, notes = watched_faults(soaked.nodes, nodes)
    count = f"{len(found.devices)} {'GPU(s)' if expected.what == 'gpu' else 'CPU rank(s)'}"
    result = ""
    ends = [("busbw", "GB/s", found.busbw)] if not found.alone else []
    ends += [("product", "TFLOP/s", speeds) for speeds in found.devices.values()] if found.alone else []
    for what, unit, speeds in ends:
        if speeds:
            first, last = _ends(speeds)
            lasted = f"{count} sustained the load for {expected.seconds / 60:.4g} min"
            result = f"{lasted}: {what} {first:.4g} {unit} in the first iterations, {last:.4g} in the last"
    return Judged(
        result=result,
        # Faults of a single node come first.
        faults=sorted([*watched, *found.faults, *slower], key=lambda fault: not fault.node),
        gaps=[*found.gaps, *([too_few] if too_few else [])],
        notes=notes,
        program="busbar_soak",
        version=found.version,
        figures=soak_figures(soaked, found.busbw, found.devices)
        | {"seconds": expected.seconds, "decay_limit": expected.decay},
    )


def _ends(values: Speeds) -> tuple[float, float]:
    """Return the medians of the first and of the last tenth of the iterations, at least one iteration."""
    count = max(1, len(values) // _TENTH)
    return median(value for _at, value in values[:count]), median(value for _at, value in values[-count:])


def _gaps(soaked: Soaked, nodes: list[str], expected: Expected) -> list[str]:
    """Return the missing parts of the job and of the nodes' samples."""
    gaps = [] if soaked.done else ["the output is truncated: the soak did not finish"]
    over = [ran for ran in soaked.ran if ran.ended is not None and ran.code == 0]
    lasted = (over[-1].ended or 0.0) - soaked.ran[0].began if over else 0.0
    if lasted < _ENOUGH * expected.seconds:
        gaps.append(f"the soak lasted {lasted:.0f} s (expected {expected.seconds:.0f} s)")
    for ran in sorted(soaked.ran, key=lambda ran: ran.code is None):
        if ran.code != 0:
            how = "did not finish" if ran.code is None else f"exited with code {ran.code}{_last_words(ran)}"
            gaps.append(f"{ran.kind} of iteration {ran.turn} {how}")
    return gaps + [f"{node}: {words}" for node in nodes for words in _node_gaps(soaked, node, expected)]


def _last_words(ran: Ran) -> str:
    lines = [line.strip() for line in ran.text.splitlines() if line.strip() and not line.startswith(("#", "busbar"))]
    return f": {lines[-1][:200]}" if lines else ""


def _node_gaps(soaked: Soaked, node: str, expected: Expected) -> list[str]:
    """Return the missing samples of a node."""
    seen = soaked.nodes.get(node)
    if seen is None:
        return ["reported nothing"]
    if seen.begin is None or seen.end is None:
        return [f"did not report the {'beginning' if seen.begin is None else 'end'} of the soak"]
    gaps = []
    times = sorted([seen.begin["at"], *(sample["at"] for sample in seen.samples), seen.end["at"]])
    longest = max(later - sooner for sooner, later in zip(times, times[1:]))
    due = (times[-1] - times[0]) / expected.interval
    if longest > _MOST_GAP * expected.interval or len(seen.samples) < due / 2 - 1:
        few = f"{len(seen.samples)} samples (expected about {due:.0f})"
        gaps.append(f"{few}; the longest gap is {longest:.0f} s")
    devices = min(len(record["devices"]) for record in (seen.begin, *seen.samples, seen.end))
    if expected.what == "gpu" and devices < expected.per_node:
        gaps.append(f"nvidia-smi listed {devices} of {expected.per_node} GPU(s)")
    if expected.what == "gpu" and expected.kernel_log and not (seen.begin["kernel_log"] and seen.end["kernel_log"]):
        gaps.append(
            f"the kernel log could not be read for Xids: add {option('user')} to the group systemd-journal there, or "
            f"set {option('soak_kernel_log')}: false"
        )
    return gaps


def _all_reduce(ran: Ran, nodes: list[str], expected: Expected, found: _Measured) -> None:
    """Record the speed, fault or gap of an all-reduce."""
    how = ExpectedRuns(
        nodes=len(nodes),
        ranks=expected.per_node * len(nodes),
        floor=_ANY_SPEED,
        collective="all_reduce",
        hosts=tuple(nodes),
        allow_known_causes=True,
    )
    answer = judge_runs(parse_text(ran.text)["runs"], None, how)
    words = f"all_reduce of iteration {ran.turn}: {answer['reason']}"
    if answer["verdict"] == FAIL:
        found.faults.append(Fault("", words))
    elif answer["reason"] == ONE_RANK:
        # A single rank has no bandwidth, so only its matrix products are judged.
        found.alone = True
    elif answer["verdict"] != PASS or answer["measured_busbw"] is None:
        found.gaps.append(words)
    else:
        found.busbw.append((ran.began, answer["measured_busbw"]))


def _products(turns: list[Ran], nodes: list[str], expected: Expected, found: _Measured) -> None:
    """Record the speeds of all products, and compare the devices over all iterations."""
    whole: dict[tuple[str, int], Rank] = {}
    for ran in turns:
        ranks, result = read_products(ran.text, nodes, expected.what)
        mine = {(rank["node"], rank["device"]): rank for rank in ranks}
        gaps = gaps_of(list(mine.values()), result, nodes, expected.per_node)
        found.gaps += [f"{node}: gemm of iteration {ran.turn}: {words}" for node, words in gaps.items()]
        for key, rank in mine.items():
            found.devices.setdefault(key, []).append((ran.began, rank["tflops"]))
            first = whole.setdefault(key, dict(rank, changed=0, copies_changed=0, batches=0))
            # All iterations compute the same product.
            differs = rank["digest"] != first["digest"] and rank["library"] == first["library"]
            first["changed"] += rank["changed"] + differs
            first["copies_changed"] += rank["copies_changed"]
            first["batches"] += rank["batches"]
    for key, rank in whole.items():
        rank["tflops"] = median(speed for _at, speed in found.devices[key])
    faults = compared(list(whole.values()), {}, expected.spread)
    found.faults += [Fault(fault.node, fault.words) for fault in faults]
    found.version = next((rank["library"] for rank in whole.values()), None)
    if not turns:
        found.gaps.append("no matrix product was measured")


def _decayed(found: _Measured, expected: Expected) -> tuple[list[Fault], str]:
    """Return the losses of speed, or an empty list and why they cannot be determined."""
    collectives = [] if found.alone else [found.busbw]
    fewest = min([len(values) for values in (*collectives, *found.devices.values())], default=0)
    if fewest < _FEWEST_TURNS or not found.devices:
        few = f"too few iterations (found {fewest}, expected at least {_FEWEST_TURNS})"
        return [], f"{few}: raise {option('soak_minutes')}"
    every = [("", "the all-reduce", "GB/s", speeds) for speeds in collectives]
    every += [
        (node, f"{device_name(expected.what, device)}:", "TFLOP/s", speeds)
        for (node, device), speeds in found.devices.items()
    ]
    faults = []
    for node, name, unit, speeds in every:
        first, last = _ends(speeds)
        if last < first * (1 - expected.decay):
            fell = f"fell by {1 - last / first:.0%}: {first:.4g} {unit} in the first iterations, {last:.4g} in the last"
            faults.append(Fault(node, f"{name} {fell}"))
    return faults, ""
