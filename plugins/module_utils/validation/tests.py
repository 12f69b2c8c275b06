# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks the options of a validation, plans its tests and judges what came back."""

from __future__ import annotations

import re
from typing import Any

from ClusterShell.NodeSet import NodeSet, NodeSetException

from ..catalogue.check import profile_problems
from ..catalogue.collectives import collective_problems, floor_of, floor_problems, known_floor, sections
from ..nccl.output import parse_text
from .environment import environment_of
from .judge import FAIL, INCONCLUSIVE, PASS, Asked, judge, scope_of
from .options import number_problems, size_problems
from .rails import of_one_rail, rail_problems, rail_share

__all__ = [
    "BACKENDS",
    "STAGES",
    "candidates",
    "floor_for",
    "fold",
    "input_problems",
    "judged",
    "node_list",
    "planned_test",
    "unknown_profiles",
]

BACKENDS = ("mpi", "nccl")
STAGES = ("storage", "node", "pair", "cluster", "training")

_TAIL = 20
_PAIR = 2
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


def node_list(nodes: str | list[str]) -> list[str]:
    """Return node names from a folded text such as ``gpu[17-20],gpu31`` or from a list.

    Raises:
        ValueError: the text is no list of nodes.
    """
    try:
        return [str(node) for node in NodeSet(nodes if isinstance(nodes, str) else ",".join(nodes))]
    except NodeSetException as exc:
        message = f"{nodes!r} is no list of nodes: {exc}"
        raise ValueError(message) from exc


def fold(nodes: list[str]) -> str:
    """Return node names folded, as in ``gpu[17-20]``."""
    return str(NodeSet(",".join(nodes))) if nodes else ""


def input_problems(options: dict[str, Any]) -> list[str]:
    """Return what is wrong with the options of a validation, each with its remedy; an empty list when nothing is.

    Args:
        options: backend, stages, binary, image, min_bytes, max_bytes, step_factor, iterations, nodes (list or folded),
            pool (all nodes that may take part), hardware (node to profile name), catalogue, partners, floor_gbs,
            topology (switch to list or folded text of nodes), locate_rounds, time_limit, drain_limit, collectives,
            search_collective, repeats, spread_limit (percent), rails (names of NICs), user.
    """
    problems = number_problems(options)
    if problems:
        return problems
    if options["backend"] not in BACKENDS:
        problems.append(f"validation_backend: {options['backend']!r} is not one of {', '.join(BACKENDS)}")
    elif options["backend"] == "nccl" and not options["binary"] and not options["image"]:
        problems.append("validation_backend: nccl needs validation_binary (a path on the nodes) or validation_image")
    problems += [
        f"validation_stages: {stage!r} is not one of {', '.join(STAGES)}"
        for stage in options["stages"]
        if stage not in STAGES
    ]
    problems += collective_problems(options) or floor_problems(options)
    problems += rail_problems(options)
    if not problems:
        problems += _node_problems(options)
    problems += _user_problems(options)
    return problems + size_problems(options) + _topology_problems(options)


def _user_problems(options: dict[str, Any]) -> list[str]:
    user = str(options["user"])
    if not _USER.fullmatch(user):
        return [f"validation_user: {user!r} is no name of a user"]
    if user == "root":
        return ["validation_user: root runs no tests: name a user without privileges, such as busbar-validation"]
    return []


def _topology_problems(options: dict[str, Any]) -> list[str]:
    switch_of: dict[str, str] = {}
    for switch, members in options["topology"].items():
        try:
            nodes = node_list(members)
        except ValueError as exc:
            return [f"validation_topology: {switch}: {exc}"]
        for node in nodes:
            if switch_of.setdefault(node, switch) != switch:
                return [f"validation_topology: {node} is under {switch_of[node]} and {switch}"]
    return []


def _node_problems(options: dict[str, Any]) -> list[str]:
    try:
        nodes = node_list(options["nodes"])
    except ValueError as exc:
        return [f"validation_nodes: {exc}"]
    if not nodes:
        return ["validation_nodes: names no node"]
    strange = [node for node in nodes if node not in options["pool"]]
    if strange:
        return [f"validation_nodes: {fold(strange)} is not among the compute nodes ({fold(options['pool'])})"]
    used = sorted({str(options["hardware"].get(node) or "") for node in nodes} & set(options["catalogue"]))
    return [problem for name in used for problem in profile_problems(name, options["catalogue"][name])]


def unknown_profiles(options: dict[str, Any]) -> list[str]:
    """Return which nodes have a profile that nobody knows, unless the operator says what to ask of them.

    A node without a profile is no mistake; its verdict is INCONCLUSIVE.

    Args:
        options: as for input_problems, which finds nothing wrong with them.
    """
    if all(floor_of(options, collective) for collective in options["collectives"]):
        return []
    strange: dict[str, list[str]] = {}
    for node in node_list(options["nodes"]):
        name = str(options["hardware"].get(node) or "")
        if name and name not in options["catalogue"]:
            strange.setdefault(name, []).append(node)
    known = ", ".join(sorted(options["catalogue"]))
    return [
        f"hardware: {name!r} of {fold(members)} is none of {known}: correct it, describe it in "
        "hardware_profiles_extra, or give validation_floor_gbs"
        for name, members in strange.items()
    ]


def _gpus(profile: dict[str, Any] | None) -> int:
    return int(((profile or {}).get("gpu") or {}).get("count") or 0)


def _ranks_per_node(options: dict[str, Any], nodes: list[str], total: int) -> int:
    """Return how many ranks run on each node: one per GPU, or as many MPI processes as asked (two on a lone node)."""
    if options["backend"] == "mpi":
        asked = int(options["mpi_ranks_per_node"])
        return max(_PAIR, asked) if total == 1 else asked
    counts = [_gpus(options["catalogue"].get(options["hardware"].get(node, ""))) for node in nodes]
    return max(1, min(counts, default=1))


def candidates(options: dict[str, Any], nodes: list[str]) -> list[str]:
    """Return the nodes that may help: of the same hardware as those tested, or any when there are none of it."""
    others = [node for node in options["pool"] if node not in nodes]
    kinds = {options["hardware"].get(node) for node in nodes}
    return [node for node in others if options["hardware"].get(node) in kinds] or others


def planned_test(  # noqa: PLR0913 - what a test is
    options: dict[str, Any],
    name: str,
    stage: str,
    nodes: list[str],
    partners: int = 0,
    *,
    collectives: list[str] | None = None,
    rail: str = "",
) -> dict[str, Any]:
    """Return a test: name, stage, kind, ranks_per_node, collectives, rail and job (for the module slurm_tests).

    Args:
        options: as for input_problems, and script (the batch script), output (path pattern), sbatch_arguments.
        name: of the test and of its output.
        stage: node, pair, cluster or search. Those of pairs and of the search make no sense with a node missing.
        nodes: the nodes to be tested.
        partners: how many others help.
        collectives: what its job measures, one after the other; by default all that are asked for.
        rail: the one NIC of each node that it may use; all of them when it is empty.
    """
    others = candidates(options, nodes) if partners else []
    partners = min(partners, len(others))
    measured = collectives or list(options["collectives"])
    ranks = _ranks_per_node(options, nodes + others, len(nodes) + partners)
    exported = f"BUSBAR_RANKS_PER_NODE={ranks},BUSBAR_COLLECTIVES={':'.join(measured)}"
    exported += f",BUSBAR_RAIL={rail}" if rail else ""
    arguments = [f"--ntasks-per-node={ranks}", f"--export=ALL,{exported}"]
    if options["backend"] == "nccl":
        arguments.append(f"--gpus-per-node={ranks}")
    job = {
        "name": name,
        "nodes": nodes,
        "candidates": others,
        "partners": partners,
        "minimum": min(_PAIR, len(nodes) + partners) if stage == "cluster" else len(nodes),
        "script": options["script"],
        "arguments": arguments + [str(item) for item in options["sbatch_arguments"]],
        "output": options["output"],
    }
    test = {"name": name, "stage": stage, "kind": "collective", "ranks_per_node": ranks}
    return {**test, "collectives": measured, "rail": rail, "job": job}


def _profile(options: dict[str, Any], nodes: list[str], collective: str) -> tuple[str, dict[str, Any] | None]:
    """Return name and profile of the weakest hardware among the nodes, judged by the floor for so many nodes.

    Hardware without a floor counts as the weakest: no other's floor can be asked of it.
    """
    names = sorted({str(options["hardware"].get(node) or "") for node in nodes})
    unknown = [name for name in names if name not in options["catalogue"]]
    if unknown or not names:
        return unknown[0] if unknown else "", None
    found = []
    for name in names:
        profile = options["catalogue"][name]
        if options["backend"] == "mpi" and _gpus(profile) and profile.get("validation_backend") != "mpi":
            return name, {**profile, "busbw": {}}
        floor, _source = known_floor(profile, scope_of(profile, len(nodes)), collective)
        found.append((0.0 if floor is None else floor, name, profile))
    _floor, name, profile = min(found, key=lambda item: item[:2])
    return name, profile


def floor_for(options: dict[str, Any], nodes: list[str], collective: str) -> float | None:
    """Return the floor in GB/s that a test of some nodes is judged by, None where none is known."""
    given = floor_of(options, collective)
    _name, profile = _profile(options, nodes, collective)
    if given is not None or profile is None:
        return given
    return known_floor(profile, scope_of(profile, len(nodes)), collective)[0]


def judged(
    options: dict[str, Any], planned: dict[str, Any], entry: dict[str, Any], text: str | None
) -> list[dict[str, Any]]:
    """Return the entries of one test in the report, one per collective; the first has the name of the test.

    Args:
        options: as for planned_test, and floor_gbs, allow_unchecked, repeats, spread_limit.
        planned: what planned_test returned.
        entry: what the module slurm_tests returned for it.
        text: the output of the job, None where there is none.
    """
    measured = planned["collectives"]
    parts = sections(text, measured) if text else {}
    common = {
        "stage": planned["stage"],
        "kind": "collective",
        "rail": planned["rail"],
        "nodes": entry["nodes"],
        "partners": entry["partners"],
        "left_out": entry["left_out"],
        "ranks": planned["ranks_per_node"] * len(entry["nodes"] + entry["partners"]),
        "environment": environment_of(text),
        "job": {key: entry[key] for key in ("job_id", "state", "exit_code", "batch_host", "seconds", "problem")},
        "output": f"{planned['name']}.out" if text else None,
    }
    found = []
    for collective in measured:
        pieces, ended = parts.get(collective, ([], None))
        name = planned["name"] if collective == measured[0] else f"{planned['name']}-{collective}"
        well = {**entry, "state": "COMPLETED"} if ended and entry["state"] == "FAILED" else entry
        answer = _answer(options, common, collective, (well, text, pieces))
        tail = [] if answer["verdict"] == PASS else ("".join(pieces) or text or "").rstrip().splitlines()[-_TAIL:]
        found.append({"name": name, "collective": collective, **common, **answer, "tail": tail})
    return found


def _answer(
    options: dict[str, Any],
    common: dict[str, Any],
    collective: str,
    came: tuple[dict[str, Any], str | None, list[str]],
) -> dict[str, Any]:
    """Return hardware, verdict and runs of one collective from what came back: the job, its output, and its parts."""
    entry, text, pieces = came
    nodes = common["nodes"] + common["partners"]
    name, profile = _profile(options, nodes, collective)
    runs = [run for piece in pieces for run in parse_text(piece)["runs"]]
    floor = floor_of(options, collective)
    if common["rail"]:
        share = rail_share(options, profile)
        floor, profile = floor and floor * share, profile and of_one_rail(profile, share)
    asked = Asked(
        nodes=max(1, len(nodes)),
        ranks=max(1, common["ranks"]),
        hardware=name or None,
        floor=floor,
        collective=collective,
        allow_unchecked=bool(options["allow_unchecked"]),
        hosts=tuple(nodes),
        steady=int(options["spread_limit"]) / 100,
        repeats=int(options["repeats"]),
    )
    answer = judge(runs, profile, asked)
    _job_first(answer, entry, text, profile, name)
    return {"hardware": name, **answer, "runs": runs}


def _job_first(
    answer: dict[str, Any], entry: dict[str, Any], text: str | None, profile: dict[str, Any] | None, name: str
) -> None:
    """Let what happened to the job come before what its output says; wrong sums stay what they are."""
    if answer["verdict"] == FAIL and "sums are wrong" in answer["reason"]:
        return
    reason = ""
    if entry["problem"]:
        reason = entry["problem"]
    elif text is None:
        where = entry["batch_host"] or "no batch host"
        reason = f"the output could not be fetched from {where}"
    elif entry["state"] != "COMPLETED" and answer["verdict"] != INCONCLUSIVE:
        reason = f"the job ended as {entry['state'] or 'unknown'} with exit code {entry['exit_code'] or '?'}"
    elif profile is None:
        reason = f"unknown hardware {name!r}: no floor" if name else "the nodes have no hardware profile: no floor"
        reason = "" if answer["floor"] is not None else reason
    if reason:
        answer["verdict"], answer["reason"] = INCONCLUSIVE, reason
