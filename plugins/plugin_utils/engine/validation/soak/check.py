# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Says whether nodes hold out under load: as fast at the end as at the beginning, without errors, and all told of.

What proves a fault counts even where something else lacks: a wrong result, an Xid, an uncorrectable error, a GPU that
is lost. What is slower counts only where it is compared with enough: a tenth of the turns at either end, four in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from ..gemm.check import Asked as AskedOfGemm
from ..gemm.check import judge_gemm
from ..gemm.output import read_gemm
from ..judge import FAIL, INCONCLUSIVE, PASS
from ..judge import Asked as AskedOfRuns
from ..judge import judge as judge_runs
from .figures import soak_report
from .watched import watched_faults

if TYPE_CHECKING:
    from .output import Ran, Soaked

from ...nccl.output import parse_text

__all__ = ["Asked", "judge_soak"]

_FEWEST_TURNS = 4
_TENTH = 10
_MOST_WORDS = 8
_MOST_GAP = 4
# Of the time asked for: the last turn ends when it ends, and a step takes a moment to begin.
_ENOUGH = 0.95
_ANY_SPEED = 1e-12


@dataclass(frozen=True)
class Asked:
    """What a soak is judged by.

    Attributes:
        per_node: ranks on each node.
        what: gpu or cpu.
        seconds: how long it had to last.
        interval: seconds between two looks at a node.
        spread: share of 1 that a device may be below the median of its like.
        decay: share of 1 by which the last tenth may be below the first.
        kernel_log: whether the kernel's log must have been read.
    """

    per_node: int
    what: str
    seconds: float
    interval: float
    spread: float
    decay: float
    kernel_log: bool


@dataclass
class _Speeds:
    """What was measured, in the order of the turns: seconds since 1970 and a speed."""

    busbw: list[tuple[float, float]]
    devices: dict[tuple[str, int], list[tuple[float, float]]]


def judge_soak(soaked: Soaked, nodes: list[str], asked: Asked) -> dict[str, Any]:
    """Return verdict, reason, findings, blamed and soak (the figures of the report).

    Args:
        soaked: as output.read_soak gives it.
        nodes: those that took part.
        asked: what they are judged by.
    """
    faults: list[tuple[str, str]] = []
    gaps = _gaps(soaked, nodes, asked)
    speeds = _Speeds([], {})
    everywhere: list[str] = []
    for ran in soaked.ran:
        if ran.kind == "all_reduce":
            wrong, gap = _all_reduce(ran, nodes, asked, speeds)
            everywhere += wrong
            gaps += gap
    products = _products([ran for ran in soaked.ran if ran.kind == "gemm"], nodes, asked, speeds)
    faults += [(item["node"], item["reason"]) for item in products["blamed"]]
    unclear = products["verdict"] == FAIL and not products["blamed"]
    everywhere += [products["reason"]] if unclear else []
    gaps += products["gaps"]
    found = watched_faults(soaked.nodes, nodes)
    faults = found.faults + faults
    slower, why_not = _decayed(speeds, asked)
    everywhere += [words for node, words in slower if not node]
    faults += [(node, words) for node, words in slower if node]
    gaps += [why_not] if why_not else []
    words = [f"{node}: {reason}" for node, reason in faults] + everywhere
    if words:
        verdict, reason = FAIL, words[0]
    elif gaps:
        verdict, reason = INCONCLUSIVE, gaps[0]
    else:
        verdict, reason = PASS, _held_out(speeds, asked)
    rest = [item for item in dict.fromkeys([*words, *gaps, *found.findings]) if item != reason]
    more = [f"{len(rest) - _MOST_WORDS} more such lines are in the output"] if len(rest) > _MOST_WORDS else []
    blamed: dict[str, str] = {}
    for node, said in faults:
        blamed.setdefault(node, said)
    return {
        "verdict": verdict,
        "reason": reason,
        "findings": rest[:_MOST_WORDS] + more,
        "source": None,
        "blamed": [{"node": node, "reason": said} for node, said in blamed.items()],
        "program": "busbar_soak",
        "version": products["version"],
        "soak": soak_report(soaked, speeds.busbw, speeds.devices, decay_limit=asked.decay, seconds=asked.seconds),
    }


def ends(values: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the median of the first tenth of the turns, one at least, and that of the last."""
    count = max(1, len(values) // _TENTH)
    return median(value for _at, value in values[:count]), median(value for _at, value in values[-count:])


def _gaps(soaked: Soaked, nodes: list[str], asked: Asked) -> list[str]:
    """Return what lacks of the job and of what the nodes told of themselves."""
    gaps = []
    if not soaked.done:
        gaps.append("the output is cut off: the soak did not come to its end")
    over = [ran for ran in soaked.ran if ran.ended is not None and ran.code == 0]
    lasted = (over[-1].ended or 0.0) - soaked.ran[0].began if over else 0.0
    if lasted < _ENOUGH * asked.seconds:
        gaps.append(f"it lasted {lasted:.0f} s of {asked.seconds:.0f} s")
    gaps += [
        f"{ran.kind} of turn {ran.turn} ended with exit code {ran.code}{_last_words(ran)}"
        for ran in soaked.ran
        if ran.code
    ]
    gaps += [f"{ran.kind} of turn {ran.turn} did not end" for ran in soaked.ran if ran.code is None]
    for node in nodes:
        gaps += [f"{node}: {words}" for words in _node_gaps(soaked, node, asked)]
    return gaps


def _last_words(ran: Ran) -> str:
    lines = [line.strip() for line in ran.text.splitlines() if line.strip() and not line.startswith(("#", "busbar"))]
    return f": {lines[-1][:200]}" if lines else ""


def _node_gaps(soaked: Soaked, node: str, asked: Asked) -> list[str]:
    """Return what a node did not tell of itself."""
    seen = soaked.nodes.get(node)
    if seen is None:
        return ["told nothing of itself"]
    if seen.begin is None or seen.end is None:
        return [f"told nothing of its {'beginning' if seen.begin is None else 'end'}"]
    gaps = []
    times = sorted([seen.begin["at"], *(sample["at"] for sample in seen.samples), seen.end["at"]])
    longest = max(later - sooner for sooner, later in pairwise(times))
    expected = (times[-1] - times[0]) / asked.interval
    if longest > _MOST_GAP * asked.interval or len(seen.samples) < expected / 2 - 1:
        gaps.append(
            f"{len(seen.samples)} samples where about {expected:.0f} were due, the longest gap is {longest:.0f} s"
        )
    devices = min(len(told["devices"]) for told in (seen.begin, *seen.samples, seen.end))
    if asked.what == "gpu" and devices < asked.per_node:
        gaps.append(f"nvidia-smi told of {devices} of {asked.per_node} GPU(s)")
    if asked.what == "gpu" and asked.kernel_log and not (seen.begin["kernel_log"] and seen.end["kernel_log"]):
        gaps.append(
            "the kernel's log could not be read, so nobody knows of an Xid: put validation_user into the group "
            "systemd-journal there, or set validation_soak_kernel_log: false"
        )
    return gaps


def _all_reduce(ran: Ran, nodes: list[str], asked: Asked, speeds: _Speeds) -> tuple[list[str], list[str]]:
    """Return what is wrong with an all-reduce, and what lacks of it; its speed is entered."""
    if ran.code is None:
        return [], []
    how = AskedOfRuns(
        nodes=len(nodes),
        ranks=asked.per_node * len(nodes),
        floor=_ANY_SPEED,
        collective="all_reduce",
        hosts=tuple(nodes),
        allow_known_causes=True,
    )
    answer = judge_runs(parse_text(ran.text)["runs"], None, how)
    said = [f"all_reduce of turn {ran.turn}: {answer['reason']}"]
    if answer["verdict"] == FAIL:
        return said, []
    if answer["verdict"] != PASS or answer["measured_busbw"] is None:
        return [], said
    speeds.busbw.append((ran.began, answer["measured_busbw"]))
    return [], []


def _products(turns: list[Ran], nodes: list[str], asked: Asked, speeds: _Speeds) -> dict[str, Any]:
    """Return what the stage gemm says of all turns together, with gaps and version; their speeds are entered."""
    whole: dict[tuple[str, int], dict[str, Any]] = {}
    told: dict[tuple[str, int], list[float]] = {}
    gaps = []
    for ran in turns:
        ranks, said = read_gemm(ran.text)
        mine = {(rank["node"], rank["device"]): rank for rank in ranks if rank["what"] == asked.what}
        for node in nodes:
            count = sum(key[0] == node for key in mine)
            if count < asked.per_node:
                words = said.get(node) or f"{count} of {asked.per_node} rank(s) told what they measured"
                gaps.append(f"{node}: gemm of turn {ran.turn}: {words}")
        for key, rank in mine.items():
            speeds.devices.setdefault(key, []).append((ran.began, rank["tflops"]))
            told.setdefault(key, []).append(rank["tflops"])
            first = whole.setdefault(key, dict(rank, changed=0, copies_changed=0, batches=0))
            # The same product of another turn is the same product.
            differs = rank["digest"] != first["digest"] and rank["library"] == first["library"]
            first["changed"] += rank["changed"] + differs
            first["copies_changed"] += rank["copies_changed"]
            first["batches"] += rank["batches"]
    for key, rank in whole.items():
        rank["tflops"] = median(told[key])
    like = AskedOfGemm(asked.per_node, asked.what, {}, asked.spread)
    answer = judge_gemm(list(whole.values()), {}, nodes, like)
    if not turns:
        gaps.append("no product of matrices was taken")
    return {**answer, "gaps": gaps}


def _decayed(speeds: _Speeds, asked: Asked) -> tuple[list[tuple[str, str]], str]:
    """Return who is slower at the end, an empty name for all together, and why that cannot be said."""
    fewest = min([len(speeds.busbw), *(len(values) for values in speeds.devices.values())])
    if fewest < _FEWEST_TURNS or not speeds.devices:
        return [], f"{fewest} turns are too few to compare the end with the beginning: raise validation_soak_minutes"
    found = []
    first, last = ends(speeds.busbw)
    if last < first * (1 - asked.decay):
        found.append(
            ("", f"the all-reduce fell by {1 - last / first:.0%}: {first:.4g} GB/s at first, {last:.4g} at last")
        )
    for (node, device), values in speeds.devices.items():
        first, last = ends(values)
        if last < first * (1 - asked.decay):
            name = "GPU" if asked.what == "gpu" else "CPU rank"
            words = f"{name} {device}: fell by {1 - last / first:.0%}: {first:.4g} TFLOP/s at first, {last:.4g} at last"
            found.append((node, words))
    return found, ""


def _held_out(speeds: _Speeds, asked: Asked) -> str:
    first, last = ends(speeds.busbw)
    count = f"{len(speeds.devices)} {'GPU(s)' if asked.what == 'gpu' else 'CPU rank(s)'}"
    return f"{count} held out for {asked.seconds / 60:.4g} min: busbw {first:.4g} GB/s at first, {last:.4g} at last"
