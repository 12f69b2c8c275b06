# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Plan and judge checks of single nodes, such as copies between GPUs and DCGM diagnostics.

A check is a job on one node with a separate script. CHECKS defines for each kind of check how its output is parsed and
judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..common.option_names_in_messages import option
from .dcgm_diag import judge_diag, read_diag
from .matrix_judge import judge_matrices
from .nccl_judge import FAIL, INCONCLUSIVE
from .nvbandwidth_parser import read_nvbandwidth
from .p2p_parser import read_p2p
from .planned_tests import check_entry, gpu_count, judged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .validation_types import Entry, Options, Planned, Test

COLLECTIVE = "collective"
_LONGEST_S = 24 * 3600


@dataclass(frozen=True)
class Check:
    """A kind of check.

    Attributes:
        read: parses an output. It never raises; problems with the output are part of the result.
        judge: returns verdict, reason, findings and further keys of the report entry, such as floor (GB/s) and source,
            given the parsed output and its context (node, hardware, profile or None, options). It never raises.
        gpus: minimum number of GPUs for the check; if it is 1 or more, the job requests all GPUs of the node.
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
    """Return the tests that ran a collective, which are the only ones that use links between nodes."""
    return [test for test in tests if kind_of(test) == COLLECTIVE]


def failed_nodes(tests: Sequence[Test]) -> set[str]:
    """Return the nodes with a failed check; an inconclusive check does not exclude a node."""
    return {node for test in tests if kind_of(test) != COLLECTIVE and test["verdict"] == FAIL for node in test["nodes"]}


def check_problems(options: Options) -> list[str]:
    """Return the problems with the requested checks, each with its remedy."""
    problems = []
    jobs = options["check_jobs"]
    for kind in dict.fromkeys(options["node_checks"]):
        if kind not in CHECKS or kind not in jobs:
            problems.append(f"{option('node_checks')}: {kind!r} is not one of {', '.join(sorted(CHECKS))}")
        elif not 0 < jobs[kind]["time_limit"] <= _LONGEST_S:
            problems.append(
                f"{option(f'{kind}_time_limit')}: {jobs[kind]['time_limit']} is out of range (1 to {_LONGEST_S} s)"
            )
        elif 0 < options["time_limit"] < jobs[kind]["time_limit"]:
            problems.append(
                f"{option('time_limit')}: {options['time_limit']} is less than the {jobs[kind]['time_limit']} s "
                f"that {kind} may take: raise it, or remove {kind} from {option('node_checks')}"
            )
    if options["p2p_floor_gbs"] < 0:
        problems.append(f"{option('p2p_floor_gbs')}: must be above 0 GB/s, or 0 for the floor of the hardware profile")
    if options["node_checks"] and "node" not in options["stages"]:
        problems.append(f"{option('node_checks')}: requires the stage node: add it to {option('stages')}")
    return problems


def planned_checks(options: Options, nodes: list[str]) -> list[Planned]:
    """Return the checks of the nodes, except those that require more GPUs than the node's profile has."""
    kinds = dict.fromkeys(options["node_checks"])
    return [_planned(options, kind, node) for kind in kinds for node in nodes if _makes_sense(options, kind, node)]


def _profile(options: Options, node: str) -> tuple[str, dict[str, Any] | None]:
    name = options["hardware"].get(node) or ""
    return name, options["catalogue"].get(name)


def _gpus(options: Options, node: str) -> int | None:
    """Return the expected number of GPUs of a node, None if unknown."""
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
    """Return the checks of the first kind that has not run yet, because a node runs one job at a time.

    Args:
        options: options of the validation.
        tests: the judged tests so far.
        nodes: the nodes to check.
    """
    done = {kind_of(test) for test in tests}
    left = [test for test in planned_checks(options, nodes) if test["kind"] not in done]
    return [test for test in left if test["kind"] == left[0]["kind"]]


def judged_test(options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
    """Return the report entries of a collective test or of a check; arguments as for judged_check."""
    if kind_of(planned) == COLLECTIVE:
        return judged(options, planned, entry, text)
    return [judged_check(options, planned, entry, text)]


def judged_check(options: Options, planned: Planned, entry: Entry, text: str | None) -> Test:
    """Return the report entry of a check: the keys common to all tests and the keys of its kind.

    Args:
        options: options of the validation.
        planned: the result of planned_checks.
        entry: its result from the slurm_tests module.
        text: the output of the job, None if missing.
    """
    node = planned["job"]["nodes"][0]
    check = CHECKS[planned["kind"]]
    name, profile = _profile(options, node)
    about = {"node": node, "hardware": name, "profile": profile, "options": options}
    answer = {"verdict": INCONCLUSIVE, "reason": "", "findings": []}
    answer |= check.judge(check.read(text or ""), about)
    return check_entry(planned, entry, text, answer, hardware=name)
