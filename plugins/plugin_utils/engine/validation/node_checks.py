# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Plans and judges what a validation tries on each node alone besides the all-reduce.

A check is a job of one node with a script of its own. Every kind is one entry of CHECKS: how its output is read, and
how what was read is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .dcgm_diag import judge_diag, read_diag
from .judge import FAIL, INCONCLUSIVE
from .nvbandwidth import read_nvbandwidth
from .p2p_matrix import judge_matrices
from .p2p_text import read_p2p
from .tests import check_entry, gpu_count, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .model import Entry, Options, Planned, Test

__all__ = [
    "CHECKS",
    "COLLECTIVE",
    "Check",
    "check_problems",
    "collectives",
    "failed_nodes",
    "judged_check",
    "judged_test",
    "kind_of",
    "next_checks",
    "planned_checks",
]

COLLECTIVE = "collective"
_LONGEST_S = 24 * 3600


@dataclass(frozen=True)
class Check:
    """A kind of check.

    Attributes:
        read: makes data of an output. It never raises; what is wrong with the output is in the data.
        judge: makes of that data, and of what it is about (node, hardware, profile or None, options), the entry's
            verdict, reason, findings and whatever else is its own, such as floor (GB/s) and source. It never raises.
        gpus: how many GPUs a node must have for the check to make sense; with 1 or more the job asks for all of them.
    """

    read: Callable[[str], dict[str, Any]]
    judge: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
    gpus: int = 0


CHECKS: dict[str, Check] = {
    "p2p": Check(read_p2p, judge_matrices, gpus=2),
    "nvbandwidth": Check(read_nvbandwidth, judge_matrices, gpus=2),
    "dcgm_diag": Check(read_diag, judge_diag, gpus=1),
}


def kind_of(test: Mapping[str, Any]) -> str:
    """Return the kind of a planned or judged test."""
    return str(test.get("kind") or COLLECTIVE)


def collectives(tests: Sequence[Test]) -> list[Test]:
    """Return the tests that ran a collective: no other says anything about the links between nodes."""
    return [test for test in tests if kind_of(test) == COLLECTIVE]


def failed_nodes(tests: Sequence[Test]) -> set[str]:
    """Return the nodes of which a check says FAIL; one without a result is no reason to leave a node out."""
    return {node for test in tests if kind_of(test) != COLLECTIVE and test["verdict"] == FAIL for node in test["nodes"]}


def check_problems(options: Options) -> list[str]:
    """Return what is wrong with the checks that are asked for, each with its remedy; an empty list when nothing is."""
    problems = []
    jobs = options["check_jobs"]
    for kind in dict.fromkeys(options["node_checks"]):
        if kind not in CHECKS or kind not in jobs:
            problems.append(f"validation_node_checks: {kind!r} is not one of {', '.join(sorted(CHECKS))}")
        elif not 0 < jobs[kind]["time_limit"] <= _LONGEST_S:
            problems.append(
                f"validation_{kind}_time_limit: {jobs[kind]['time_limit']} is not 1 to {_LONGEST_S} seconds"
            )
        elif 0 < options["time_limit"] < jobs[kind]["time_limit"]:
            problems.append(
                f"validation_time_limit: {options['time_limit']} is less than the {jobs[kind]['time_limit']} s "
                f"that {kind} may take: raise it, or leave {kind} out of validation_node_checks"
            )
        else:
            problems += [f"validation_{kind}_{problem}" for problem in jobs[kind].get("problems") or []]
    if options["p2p_floor_gbs"] < 0:
        problems.append("validation_p2p_floor_gbs: must be GB/s above 0, or 0 for that of the hardware profile")
    if options["node_checks"] and "node" not in options["stages"]:
        problems.append("validation_node_checks: run in the stage node, which validation_stages leaves out")
    return problems


def planned_checks(options: Options, nodes: list[str]) -> list[Planned]:
    """Return the checks of some nodes; one whose profile has too few GPUs for a check has none."""
    kinds = dict.fromkeys(options["node_checks"])
    return [_planned(options, kind, node) for kind in kinds for node in nodes if _makes_sense(options, kind, node)]


def _profile(options: Options, node: str) -> tuple[str, dict[str, Any] | None]:
    name = options["hardware"].get(node) or ""
    return name, options["catalogue"].get(name)


def _gpus(options: Options, node: str) -> int | None:
    """Return how many GPUs a node should have, None when that is not known."""
    profile = _profile(options, node)[1]
    return None if profile is None else gpu_count(profile)


def _makes_sense(options: Options, kind: str, node: str) -> bool:
    gpus = _gpus(options, node)
    return gpus is None or gpus >= CHECKS[kind].gpus


def _planned(options: Options, kind: str, node: str) -> Planned:
    own = options["check_jobs"][kind]
    gpus = _gpus(options, node) if CHECKS[kind].gpus else 0
    arguments = ["--ntasks-per-node=1", *([f"--gpus-per-node={gpus}"] if gpus else [])]
    name = f"{kind}-{node}"
    return {
        "name": name,
        "stage": "node",
        "kind": kind,
        "ranks_per_node": 1,
        "time_limit": own["time_limit"],
        "job": {
            "name": name,
            "nodes": [node],
            "candidates": [],
            "partners": 0,
            "minimum": 1,
            "script": own["script"],
            "arguments": [*arguments, *own.get("arguments", []), *options["sbatch_arguments"]],
            "output": options["output"],
        },
    }


def next_checks(options: Options, tests: Sequence[Test], nodes: list[str]) -> list[Planned]:
    """Return the checks of the first kind that has not been run; a node takes one job at a time.

    Args:
        options: of the validation.
        tests: the judged tests so far.
        nodes: the nodes to be checked.
    """
    done = {kind_of(test) for test in tests}
    left = [test for test in planned_checks(options, nodes) if test["kind"] not in done]
    return [test for test in left if test["kind"] == left[0]["kind"]]


def judged_test(options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
    """Return the report's entries of a collective's test or a check; arguments as for judged_check."""
    if kind_of(planned) == COLLECTIVE:
        return judged(options, planned, entry, text)
    return [judged_check(options, planned, entry, text)]


def judged_check(options: Options, planned: Planned, entry: Entry, text: str | None) -> Test:
    """Return the report's entry of a check: the keys of those of validation.judged, and those of its kind.

    Args:
        options: of the validation.
        planned: what planned_checks returned.
        entry: what the module slurm_tests returned for it.
        text: the output of the job, None where there is none.
    """
    node = planned["job"]["nodes"][0]
    check = CHECKS[planned["kind"]]
    name, profile = _profile(options, node)
    about = {"node": node, "hardware": name, "profile": profile, "options": options}
    answer = {"verdict": INCONCLUSIVE, "reason": "", "findings": []}
    answer |= check.judge(check.read(text or ""), about)
    return check_entry(planned, entry, text, answer, hardware=name)
