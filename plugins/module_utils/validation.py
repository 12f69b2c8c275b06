# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Plans the tests of a validation and turns what came back into the report."""

from __future__ import annotations

from typing import Any

from ClusterShell.NodeSet import NodeSet, NodeSetException

from .hardware import profile_problems
from .judge import FAIL, INCONCLUSIVE, PASS, Asked, judge, scope_of, worst
from .nccl_output import parse_text
from .report_environment import environment_of

__all__ = ["BACKENDS", "SCHEMA", "STAGES", "fold", "input_problems", "node_list", "plan", "report", "summary_lines"]

SCHEMA = 1
BACKENDS = ("mpi", "nccl")
STAGES = ("node", "cluster")

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MARK = {PASS: "PASS", FAIL: "FAIL", INCONCLUSIVE: "INCONCLUSIVE"}
_TAIL = 20
_PAIR = 2


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


def bytes_of(text: str | int) -> int:
    """Return a number of bytes written as 8, 64K, 16M or 1G.

    Raises:
        ValueError: the text is no size.
    """
    text = str(text).strip()
    number, unit = (text[:-1], text[-1].upper()) if text and not text[-1].isdigit() else (text, "")
    if unit not in _UNITS or not number.isdigit() or int(number) == 0:
        message = f"{text!r} is no size: write 8, 64K, 16M or 1G"
        raise ValueError(message)
    return int(number) * _UNITS[unit]


def input_problems(options: dict[str, Any]) -> list[str]:
    """Return what is wrong with the options of a validation, each with its remedy; an empty list when nothing is.

    Args:
        options: backend, stages, binary, image, min_bytes, max_bytes, step_factor, iterations, nodes (list or folded),
            pool (all nodes that may take part), hardware (node to profile name), catalogue, partners, floor_gbs.
    """
    problems = []
    if options["backend"] not in BACKENDS:
        problems.append(f"nccl_validation_backend: {options['backend']!r} is not one of {', '.join(BACKENDS)}")
    elif options["backend"] == "nccl" and not options["binary"] and not options["image"]:
        problems.append(
            "nccl_validation_backend: nccl needs nccl_validation_binary (a path on the nodes) or nccl_validation_image"
        )
    problems += [
        f"nccl_validation_stages: {stage!r} is not one of {', '.join(STAGES)}"
        for stage in options["stages"]
        if stage not in STAGES
    ]
    return problems + _size_problems(options) + _node_problems(options)


def _size_problems(options: dict[str, Any]) -> list[str]:
    problems = []
    sizes = {}
    for name in ("min_bytes", "max_bytes"):
        try:
            sizes[name] = bytes_of(options[name])
        except ValueError as exc:
            problems.append(f"nccl_validation_{name}: {exc}")
    if len(sizes) == len(("min", "max")) and sizes["min_bytes"] > sizes["max_bytes"]:
        problems.append("nccl_validation_min_bytes is above nccl_validation_max_bytes")
    if int(options["step_factor"]) < 2:  # noqa: PLR2004 - a factor of one never ends
        problems.append("nccl_validation_step_factor: must be 2 or more")
    if int(options["iterations"]) < 1:
        problems.append("nccl_validation_iterations: must be 1 or more")
    return problems


def _node_problems(options: dict[str, Any]) -> list[str]:
    try:
        nodes = node_list(options["nodes"])
    except ValueError as exc:
        return [f"nccl_validation_nodes: {exc}"]
    if not nodes:
        return ["nccl_validation_nodes: names no node"]
    strange = [node for node in nodes if node not in options["pool"]]
    if strange:
        return [f"nccl_validation_nodes: {fold(strange)} is not among the compute nodes ({fold(options['pool'])})"]
    used = sorted({str(options["hardware"].get(node) or "") for node in nodes} & set(options["catalogue"]))
    return [problem for name in used for problem in profile_problems(name, options["catalogue"][name])]


def _gpus(profile: dict[str, Any] | None) -> int:
    return int(((profile or {}).get("gpu") or {}).get("count") or 0)


def _ranks_per_node(options: dict[str, Any], nodes: list[str], total: int) -> int:
    """Return how many ranks run on each node: one per GPU, or as many MPI processes as asked (two on a lone node)."""
    if options["backend"] == "mpi":
        asked = int(options["mpi_ranks_per_node"])
        return max(_PAIR, asked) if total == 1 else asked
    counts = [_gpus(options["catalogue"].get(options["hardware"].get(node, ""))) for node in nodes]
    return max(1, min(counts, default=1))


def plan(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tests of a validation, each with name, stage, ranks_per_node and job (for the module slurm_tests).

    Args:
        options: as for input_problems, and script (the batch script), output (path pattern).

    Raises:
        ValueError: the options are not right.
    """
    problems = input_problems(options)
    if problems:
        raise ValueError("; ".join(problems))
    nodes = node_list(options["nodes"])
    partners = int(options["partners"])
    candidates = _candidates(options, nodes) if partners else []
    tests = []
    if "node" in options["stages"]:
        tests += [_test(options, f"node-{node}", "node", [node], [], 0) for node in nodes]
    if "cluster" in options["stages"]:
        tests.append(_test(options, "cluster", "cluster", nodes, candidates, partners))
    return tests


def _candidates(options: dict[str, Any], nodes: list[str]) -> list[str]:
    """Return the nodes that may help: of the same hardware as those tested, or any when there are none of it."""
    others = [node for node in options["pool"] if node not in nodes]
    kinds = {options["hardware"].get(node) for node in nodes}
    return [node for node in others if options["hardware"].get(node) in kinds] or others


def _test(  # noqa: PLR0913, PLR0917 - what makes a test
    options: dict[str, Any], name: str, stage: str, nodes: list[str], candidates: list[str], partners: int
) -> dict[str, Any]:
    ranks = _ranks_per_node(options, nodes + candidates, len(nodes) + partners)
    arguments = [f"--ntasks-per-node={ranks}", f"--export=ALL,BUSBAR_RANKS_PER_NODE={ranks}"]
    if options["backend"] == "nccl":
        arguments.append(f"--gpus-per-node={ranks}")
    job = {
        "name": name,
        "nodes": nodes,
        "candidates": candidates,
        "partners": partners,
        "minimum": min(_PAIR, len(nodes) + partners) if stage == "cluster" else 1,
        "script": options["script"],
        "arguments": arguments + [str(item) for item in options["sbatch_arguments"]],
        "output": options["output"],
    }
    return {"name": name, "stage": stage, "ranks_per_node": ranks, "job": job}


def _profile(options: dict[str, Any], nodes: list[str]) -> tuple[str, dict[str, Any] | None]:
    """Return name and profile of the weakest hardware among the nodes, judged by the floor for so many nodes."""
    names = sorted({str(options["hardware"].get(node) or "") for node in nodes})
    unknown = [name for name in names if name not in options["catalogue"]]
    if unknown or not names:
        return unknown[0] if unknown else "", None
    found = []
    for name in names:
        profile = options["catalogue"][name]
        if options["backend"] == "mpi" and _gpus(profile) and profile.get("validation_backend") != "mpi":
            return name, {**profile, "busbw": {}}
        floor = ((profile.get("busbw") or {}).get(scope_of(profile, len(nodes))) or {}).get("floor_gbs")
        found.append((float("inf") if floor is None else float(floor), name, profile))
    _floor, name, profile = min(found, key=lambda item: item[:2])
    return name, profile


def _judged(
    options: dict[str, Any], planned: dict[str, Any], entry: dict[str, Any], text: str | None
) -> dict[str, Any]:
    """Return the entry of one test in the report."""
    nodes = entry["nodes"] + entry["partners"]
    name, profile = _profile(options, nodes)
    ranks = planned["ranks_per_node"] * len(nodes)
    runs = parse_text(text)["runs"] if text else []
    asked = Asked(
        nodes=max(1, len(nodes)),
        ranks=max(1, ranks),
        hardware=name or None,
        floor=float(options["floor_gbs"]) if float(options["floor_gbs"] or 0) > 0 else None,
        collective="all_reduce",
        allow_unchecked=bool(options["allow_unchecked"]),
        hosts=tuple(nodes),
    )
    answer = judge(runs, profile, asked)
    _job_first(answer, entry, text, profile, name)
    return {
        "name": planned["name"],
        "stage": planned["stage"],
        "collective": "all_reduce",
        "nodes": entry["nodes"],
        "partners": entry["partners"],
        "left_out": entry["left_out"],
        "hardware": name,
        "ranks": ranks,
        **answer,
        "environment": environment_of(text),
        "job": {key: entry[key] for key in ("job_id", "state", "exit_code", "batch_host", "seconds", "problem")},
        "output": f"{planned['name']}.out" if text else None,
        "tail": [] if answer["verdict"] == PASS else (text or "").rstrip().splitlines()[-_TAIL:],
        "runs": runs,
    }


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


def report(
    options: dict[str, Any], tests: list[dict[str, Any]], result: dict[str, Any], texts: list[str | None]
) -> dict[str, Any]:
    """Return the report of a validation.

    Args:
        options: as for plan, and cluster, started (ISO 8601 text), floor_gbs, allow_unchecked.
        tests: what plan returned.
        result: what the module slurm_tests returned; a failed or unreachable result when it did not run.
        texts: the output of each test in order, None where there is none.
    """
    entries = result.get("tests") or []
    if len(entries) == len(tests):
        judged = [
            _judged(options, planned, entry, text) for planned, entry, text in zip(tests, entries, texts, strict=True)
        ]
        verdict = worst([test["verdict"] for test in judged])
        left_out = {node: reason for test in judged for node, reason in test["left_out"].items()}
        reason = next(
            (f"{test['name']}: {test['reason']}" for test in judged if test["verdict"] == verdict), "no test ran"
        )
    else:
        judged, left_out, verdict = [], {}, INCONCLUSIVE
        reason = (
            f"the tests could not be run: {str(result.get('msg') or 'the controller gave no answer').strip()[:500]}"
        )
    if left_out and verdict == PASS:
        verdict = INCONCLUSIVE
        reason = f"not tested: {', '.join(f'{node} ({why})' for node, why in sorted(left_out.items()))}"
    return {
        "schema": SCHEMA,
        "verdict": verdict,
        "reason": reason,
        "cluster": options["cluster"],
        "started": options["started"],
        "backend": options["backend"],
        "nodes": node_list(options["nodes"]),
        "left_out": left_out,
        "tests": judged,
        "node_reasons": result.get("node_reasons") or [],
        "settings": {key: options[key] for key in ("min_bytes", "max_bytes", "step_factor", "iterations", "partners")},
    }


def summary_lines(data: dict[str, Any]) -> list[str]:
    """Return one line per test, then what was left out, then the verdict."""
    lines = []
    for test in data["tests"]:
        who = fold(test["nodes"] + test["partners"]) or "no node"
        lines.append(f"{_MARK[test['verdict']]}  {test['name']} on {who}, {test['ranks']} ranks: {test['reason']}")
        lines += [f"      {finding}" for finding in test["findings"]]
    lines += [f"not tested  {node}: {reason}" for node, reason in sorted(data["left_out"].items())]
    lines.append(f"{_MARK[data['verdict']]}  validation of {data['cluster']}: {data['reason']}")
    return lines
