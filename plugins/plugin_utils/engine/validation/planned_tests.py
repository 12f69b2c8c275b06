# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Plan the tests of a validation, and judge the results of collectives."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, cast

from ....module_utils.hardware.machine_parts import parts_of
from ..catalogue.builtin_profiles import unknown_hardware
from ..catalogue.collectives import floor_of, repeats_in_time, sections
from ..catalogue.floors import domain_problem, domain_sizes, placed_floor, scope_of
from ..common.hostlist import fold_hosts
from ..common.option_names_in_messages import option
from ..nccl.inspector import inspector_words
from ..nccl.parse_output import parse_text
from ..nccl.ras import ras_words
from .job_output_parser import (
    difference_words,
    differences,
    environment_of,
    of_nodes,
    port_findings,
    step_fault,
    unconnected,
)
from .nccl_judge import FAIL, INCONCLUSIVE, NO_FLOOR, PASS, Expected, Judged, floor_remedy, judge
from .single_rail_profiles import of_nic_path, of_one_rail, rail_share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .validation_types import Entry, Options, Planned, Test

_TAIL = 20
_JOB = frozenset({"job_id", "state", "exit_code", "batch_host", "seconds", "problem"})
_PAIR = 2


def unknown_profiles(options: Options) -> list[str]:
    """Return a message for each group of nodes with an unknown profile.

    A node without a profile is valid; its verdict is INCONCLUSIVE unless the options set a floor.
    """
    strange: dict[str, list[str]] = {}
    for node in options["nodes"]:
        name = options["hardware"].get(node) or ""
        if name and name not in options["catalogue"]:
            strange.setdefault(name, []).append(node)
    found = [(fold_hosts(members), *unknown_hardware(name, options["catalogue"])) for name, members in strange.items()]
    return [f"{members}: hardware: {problem}. Remedy: {remedy}." for members, problem, remedy in found]


def gpu_count(profile: dict[str, Any] | None) -> int:
    """Return the number of GPUs in a profile."""
    return int(((profile or {}).get("gpu") or {}).get("count") or 0)


def _ranks_per_node(options: Options, nodes: list[str], total: int) -> int:
    """Return the ranks per node: one per GPU, or the configured number of MPI processes (at least two in total)."""
    if options["backend"] == "mpi":
        per_node = options["mpi_ranks_per_node"]
        return max(_PAIR, per_node) if total == 1 else per_node
    counts = [gpu_count(profile_of(options, node)) for node in nodes]
    return max(1, min(counts, default=1))


def profile_of(options: Options, node: str) -> dict[str, Any]:
    """Return the hardware profile of a node; empty if unknown."""
    return options["catalogue"].get(options["hardware"].get(node) or "") or {}


def profile_names(options: Options, nodes: list[str]) -> list[str]:
    """Return the sorted names of the nodes' hardware profiles."""
    return sorted({options["hardware"].get(node) or "" for node in nodes} - {""})


def candidates(options: Options, nodes: list[str]) -> list[str]:
    """Return possible partners: nodes with the same hardware as the tested ones, or all nodes if no other node has it.

    Nodes that passed in earlier reports are preferred; otherwise, those that did not fail are used.
    """
    last_results = options["last_results"]
    others = [node for node in options["pool"] if node not in nodes and last_results.get(node, True)]
    kinds = {options["hardware"].get(node) for node in nodes}
    alike = [node for node in others if options["hardware"].get(node) in kinds] or others
    return [node for node in alike if node in last_results] or alike


def with_variables(script: str, variables: Mapping[str, object]) -> str:
    """Return a batch script that first exports variables.

    ``--export=ALL,NAME=VALUE`` would have the same effect, but slurmd then runs ``su - USER`` for the login environment
    (sbatch.c sets SLURM_GET_USER_ENV), and from Slurm 25.05 on cancels the job if su fails (req.c, _get_user_env).
    """
    lines = script.splitlines(keepends=True)
    first = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    exports = [f"export {name}={shlex.quote(str(value))}\n" for name, value in variables.items()]
    return "".join([*lines[:first], *exports, *lines[first:]])


def planned_test(  # noqa: PLR0913 - one for each property of a test
    options: Options,
    name: str,
    stage: str,
    nodes: list[str],
    partners: int = 0,
    *,
    collectives: list[str] | None = None,
    rail: str = "",
    nic_alone: bool = False,
    repeats: int = 0,
) -> Planned:
    """Return a test that runs collectives.

    Args:
        options: options of the validation.
        name: name of the test and of its output.
        stage: node, pair, cluster or search. Tests of pairs and of the search require all their nodes.
        nodes: nodes to test.
        partners: number of partners.
        collectives: measured collectives, in order; by default all requested ones.
        rail: the only NIC of each node that it may use; empty for all.
        nic_alone: whether GPUs may communicate only through NICs.
        repeats: measurements of each collective in half of the job's time; 0 for the default of the options.
    """
    others = candidates(options, nodes) if partners else []
    partners = min(partners, len(others))
    measured = collectives or list(options["collectives"])
    ranks = _ranks_per_node(options, nodes + others, len(nodes) + partners)
    variables: dict[str, object] = {"BUSBAR_RANKS_PER_NODE": ranks, "BUSBAR_COLLECTIVES": ":".join(measured)}
    if rail:
        variables["BUSBAR_RAIL"] = rail
    if nic_alone:
        variables["BUSBAR_NIC_ALONE"] = 1
    if repeats:
        variables |= {"BUSBAR_REPEATS": repeats, "BUSBAR_SECONDS": options["test_time_limit"] // 2}
    arguments = [f"--ntasks-per-node={ranks}", "--export=ALL"]
    if options["backend"] == "nccl":
        arguments.append(f"--gpus-per-node={ranks}")
    return {
        "name": name,
        "stage": stage,
        "kind": "collective",
        "ranks_per_node": ranks,
        "collectives": measured,
        "rail": rail,
        "nic_alone": nic_alone,
        "repeats": repeats,
        "job": {
            "name": name,
            "nodes": nodes,
            "candidates": others,
            "partners": partners,
            "minimum": min(_PAIR, len(nodes) + partners) if stage in {"cluster", "nic"} else len(nodes),
            "script": with_variables(options["script"], variables),
            "arguments": [*arguments, *options["sbatch_arguments"]],
            "output": options["output"],
        },
    }


def _profile(options: Options, nodes: list[str], collective: str) -> tuple[str, dict[str, Any] | None]:
    """Return the name and profile of the hardware with the lowest floor for this number of nodes.

    Hardware without a floor is preferred, because the floor of another profile does not apply to it.
    """
    names = sorted({(options["hardware"].get(node) or "") for node in nodes})
    unknown = [name for name in names if name not in options["catalogue"]]
    if unknown or not names:
        return unknown[0] if unknown else "", None
    found = []
    for name in names:
        profile = options["catalogue"][name]
        if options["backend"] == "mpi" and gpu_count(profile) and profile.get("validation_backend") != "mpi":
            return name, {**profile, "busbw": {}}
        floor = placed_floor(profile, len(nodes), _domains(options, nodes), collective).gbs
        found.append((0.0 if floor is None else floor, name, profile))
    _floor, name, profile = min(found, key=lambda item: item[:2])
    return name, profile


def floor_for(options: Options, nodes: list[str], collective: str) -> float | None:
    """Return the floor in GB/s of a test on the given nodes; None if unknown."""
    given = floor_of(options, collective)
    _name, profile = _profile(options, nodes, collective)
    if given is not None or profile is None:
        return given
    return placed_floor(profile, len(nodes), _domains(options, nodes), collective).gbs


def unknown_floors(options: Options) -> list[str]:
    """Return a message about collectives that get no verdict because no floor is known."""
    kinds = {options["hardware"].get(node) or "": node for node in reversed(options["nodes"])}
    alone = [
        (f"one node of {name or 'unknown hardware'}", [node])
        for name, node in kinds.items()
        if "node" in options["stages"] and _ranks_per_node(options, [node], 1) >= _PAIR
    ]
    many = len(options["nodes"]) > 1 and not {"cluster", "pair"}.isdisjoint(options["stages"])
    groups = alone + ([(f"all {len(options['nodes'])} nodes", options["nodes"])] if many else [])
    lacking = [
        f"{collective} on {words}"
        for collective in options["collectives"]
        for words, nodes in groups
        if floor_for(options, nodes, collective) is None
        and not domain_problem(_profile(options, nodes, collective)[1], len(nodes), _domains(options, nodes))
    ]
    if not lacking:
        return []
    then = "their verdict will be INCONCLUSIVE"
    return [f"{NO_FLOOR} for {', '.join(lacking)}: {then}. Use the measured values to {floor_remedy()}"]


def _domains(options: Options, nodes: list[str]) -> tuple[int, ...] | None:
    """Return the number of nodes in each NVLink domain; None if any node's domain is unknown."""
    return domain_sizes(nodes, options["nvlink_domains"])


def scope_for(options: Options, nodes: list[str], collective: str) -> str:
    """Return the scope of the hardware profile that applies to the given nodes; empty if unknown."""
    _name, profile = _profile(options, nodes, collective)
    return scope_of(profile, len(nodes), _domains(options, nodes)) if profile is not None else ""


def judged(options: Options, planned: Planned, entry: Entry, text: str | None) -> list[Test]:
    """Return the report entries of a test, one per collective; the first has the name of the test.

    Args:
        options: options of the validation.
        planned: the result of planned_test.
        entry: the result of its job.
        text: the output of the job, None if missing.
    """
    measured = planned["collectives"]
    parts = sections(text, measured) if text else {}
    unlike = differences(of_nodes(text))
    found: list[Test] = []
    for collective in measured:
        pieces, ended = parts.get(collective, ([], None))
        name = planned["name"] if collective == measured[0] else f"{planned['name']}-{collective}"
        well = entry
        if ended and entry["state"] == "FAILED":
            well = entry.copy()
            well["state"] = "COMPLETED"
        hardware, answer, runs = _answer(options, planned, collective, (well, text, pieces))
        tail = [] if answer["verdict"] == PASS else ("".join(pieces) or text or "").rstrip().splitlines()[-_TAIL:]
        answer["findings"] += [
            *(difference_words(*each) for each in unlike.items()),
            *port_findings(text, slow=answer["verdict"] != PASS),
            *(ras_words(text or "") + inspector_words(text or "") if answer["verdict"] != PASS else []),
        ]
        own = {
            "name": name,
            "kind": "collective",
            "collective": collective,
            "rail": planned["rail"],
            "ranks": _ranks(planned, entry),
            "hardware": hardware,
            "differences": unlike,
            "runs": runs,
            "tail": tail,
        }
        found.append(_entry(planned, entry, text, {**answer, **own}))
    return found


def _entry(planned: Planned, entry: Entry, text: str | None, answer: Mapping[str, Any]) -> Test:
    """Return the report entry of a test, from its job and the result of its judge."""
    found = {
        "name": planned["name"],
        "stage": planned["stage"],
        "collective": "",
        "rail": "",
        "nodes": entry["nodes"],
        "partners": entry["partners"],
        "left_out": entry["left_out"],
        **dict.fromkeys(("measured_busbw", "at_size", "floor", "ceiling", "source")),
        "environment": environment_of(text),
        "parts": parts_of(text),
        # Differences between nodes are determined only for collectives.
        "differences": {},
        "job": {key: value for key, value in entry.items() if key in _JOB},
        "output": f"{planned['name']}.out" if text else None,
        "tail": [] if answer["verdict"] == PASS else (text or "").rstrip().splitlines()[-_TAIL:],
        "runs": [],
        **answer,
    }
    # The remaining keys are those of the check.
    return cast("Test", found)


def check_entry(  # noqa: PLR0913 - one for each part of an entry
    planned: Planned,
    entry: Entry,
    text: str | None,
    answer: dict[str, Any],
    *,
    hardware: str,
    ranks: int = 0,
    proves: bool = False,
) -> Test:
    """Return the report entry of a check, which is not a collective.

    Args:
        planned: the test: name, stage and kind.
        entry: its result from the slurm_tests module.
        text: the output of the job, None if missing.
        answer: verdict, reason, findings and the other keys of the check's judge.
        hardware: name of one or several profiles.
        ranks: number of ranks; 0 if not applicable.
        proves: whether a FAIL is kept if the job failed; a low speed on a failing node is not conclusive.
    """
    if not (proves and answer["verdict"] == FAIL):
        answer = answer | _check_job_first(answer, entry, text)
    return _entry(planned, entry, text, {"kind": planned["kind"], **answer, "hardware": hardware, "ranks": ranks})


def _check_job_first(answer: dict[str, Any], entry: Entry, text: str | None) -> dict[str, Any]:
    """Return the answer, with the verdict INCONCLUSIVE and the job's failure as reason if the job failed."""
    reason = _no_output(entry, text)
    if not reason and (fault := step_fault(text, ran=answer["verdict"] != INCONCLUSIVE)):
        reason = fault
    elif not reason and entry["state"] != "COMPLETED" and answer["verdict"] == PASS:
        reason = _bad_end(entry)
    return {"verdict": INCONCLUSIVE, "reason": reason} if reason else {}


def _no_output(entry: Entry, text: str | None) -> str:
    if entry["problem"]:
        return entry["problem"]
    host = entry["batch_host"] or "an unknown batch host"
    return f"the output could not be fetched from {host}" if text is None else ""


def _bad_end(entry: Entry) -> str:
    return f"the job ended as {entry['state'] or 'unknown'} with exit code {entry['exit_code'] or '?'}"


def _ranks(planned: Planned, entry: Entry) -> int:
    return planned["ranks_per_node"] * len(entry["nodes"] + entry["partners"])


def _answer(
    options: Options, planned: Planned, collective: str, came: tuple[Entry, str | None, list[str]]
) -> tuple[str, Judged, list[dict[str, Any]]]:
    """Return the hardware, verdict and runs of a collective from the job, its output, and the collective's sections."""
    entry, text, pieces = came
    nodes = entry["nodes"] + entry["partners"]
    name, profile = _profile(options, nodes, collective)
    runs = [run for piece in pieces for run in parse_text(piece, numbered=False)["runs"]]
    wanted = planned.get("repeats") or options["repeats"]
    measured = min(wanted, repeats_in_time(text) or wanted)
    floor = floor_of(options, collective)
    if planned["rail"]:
        share = rail_share(options, profile)
        floor, profile = floor and floor * share, profile and of_one_rail(profile, share)
    if planned.get("nic_alone"):
        # A floor from the options applies to tests that use all paths, not to the NICs alone.
        floor, profile = None, profile and of_nic_path(profile, planned["ranks_per_node"])
    expected = Expected(
        nodes=max(1, len(nodes)),
        ranks=max(1, _ranks(planned, entry)),
        hardware=name or None,
        floor=floor,
        collective=collective,
        allow_unchecked=options["allow_unchecked"],
        allow_known_causes=options["allow_known_causes"],
        hosts=tuple(nodes),
        steady=options["spread_limit"] / 100,
        repeats=None if planned.get("repeats") else measured,
        domains=_domains(options, nodes),
    )
    answer = judge(runs, profile, expected)
    if measured < wanted:
        steady = ", so steadiness is unknown" if measured == 1 else ""
        finished = f"{measured} of {wanted} repeats finished in time{steady}"
        answer["findings"].append(f"{finished}: raise {option('test_time_limit')}")
    reason = _job_first(answer, entry, text, profile, name)
    if text is not None and not entry["problem"] and "sums are wrong" not in answer["reason"]:
        reason = step_fault("".join(pieces) or text, ran=answer["verdict"] != INCONCLUSIVE) or reason
    apart = (unconnected(piece, _ranks(planned, entry)) for piece in pieces)
    if reason := next(filter(None, apart), "") or reason:
        answer["verdict"], answer["reason"] = INCONCLUSIVE, reason
    return name, answer, runs


def _job_first(answer: Judged, entry: Entry, text: str | None, profile: dict[str, Any] | None, name: str) -> str:
    """Return how the job failed if that is more informative than its output; wrong results keep their verdict."""
    if answer["verdict"] == FAIL and "sums are wrong" in answer["reason"]:
        return ""
    if missing := _no_output(entry, text):
        return missing
    if entry["state"] != "COMPLETED" and answer["verdict"] != INCONCLUSIVE:
        return _bad_end(entry)
    if profile is None and answer["floor"] is None:
        unknown = f"unknown hardware {name!r}" if name else "the nodes have no hardware profile"
        return f"{unknown}: no floor; {floor_remedy()}"
    return ""
