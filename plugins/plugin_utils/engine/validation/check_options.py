# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Check the options of a validation, and convert them to the declared types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from ....module_utils.common.problems import one_line
from ....module_utils.slurm.reservation import OWN_NAME
from ..catalogue.collectives import collective_problems, floor_problems
from ..catalogue.profile_check import profile_problems
from ..common.hostlist import fold_hosts, unfold_hosts
from ..common.option_names_in_messages import option
from ..search.sequential_test import DROP, MOST_REPEATS
from . import stage_registry
from .option_types import read_options, size_problems
from .partition_choice import queue_problems
from .planned_tests import unknown_profiles
from .validation_types import CheckJob, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BACKENDS = ("mpi", "nccl")
DRIFT = ("ignore", "finding", "fail")
RESUMED = ("own", "all", "none")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_RESERVATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# Optional keys and their defaults.
_EMPTY: dict[str, Any] = {
    "nvlink_domains": {},
    "node_checks": [],
    "check_jobs": {},
    "p2p_floor_gbs": 0.0,
    "straggler_limit": 0,
    "drift": "ignore",
    "allow_busy": False,
    "last_results": {},
    "slurm_topology": {},
    "search_repeats": MOST_REPEATS,
    "search_drop": round(100 * DROP),
    "out_of_service": False,
    "reservation": "",
    "inspector": "",
    "resume": "own",
}


def typed(given: Mapping[str, Any]) -> Options:
    """Return the checked and converted options; already converted options are returned unchanged.

    Args:
        given: the keys of Options except own. Each value may be a string; nodes and topology may be lists or folded
            strings. The options of a stage are a dictionary under the name of the stage.

    Raises:
        ValueError: the options are invalid; the message contains all problems.
    """
    if "own" in given:
        return cast("Options", given)
    options, problems = _read(given)
    problems = problems or _problems(options)
    if problems:
        raise ValueError("; ".join(problems))
    return options


def input_problems(given: Mapping[str, Any]) -> list[str]:
    """Return the problems with a validation's options, each with its remedy."""
    options, problems = _read(given)
    return problems or _problems(options)


def all_problems(given: Mapping[str, Any]) -> list[str]:
    """Return the problems with the options or, if they are valid, the unknown hardware profiles."""
    return input_problems(given) or unknown_profiles(typed(given))


def _read(given: Mapping[str, Any]) -> tuple[Options, list[str]]:
    """Return the typed options, and the problems with values of the wrong type."""
    stages = [stage for stage in stage_registry.STAGES if stage.form is not None]
    plain = {**_EMPTY, **given, "own": {}}
    mine = {stage.name: plain.pop(stage.name, None) for stage in stages}
    plain["nodes"], problems = _folded(option("nodes"), given["nodes"])
    topologies: dict[str, dict[str, list[str]]] = {}
    for key in ("topology", "slurm_topology"):
        topologies[key] = {}
        for switch, members in dict(plain[key]).items():
            topologies[key][str(switch)], strange = _folded(f"{option(key)}: {switch}", members)
            problems += strange
    jobs = {}
    for kind in [kind for kind in plain["check_jobs"] if kind in plain["node_checks"]]:
        jobs[kind], strange = read_options(CheckJob, plain["check_jobs"][kind], _named(kind))
        problems += strange
    found, strange = read_options(Options, plain | topologies | {"check_jobs": jobs})
    problems += strange
    for stage in stages:
        if stage.name in found.get("stages", []):
            values = mine[stage.name] or {}
            found["own"][stage.name], strange = read_options(stage.form, values, _named(stage.name))
            problems += strange
    return cast("Options", found), problems


def _named(part: str) -> Callable[[str], str]:
    """Return a function that adds the prefix of a stage or node check to an option name."""
    return lambda key: option(f"{part}_{key}")


def _folded(name: str, value: object) -> tuple[list[str], list[str]]:
    """Return the nodes in a list or a folded string, and the problems with it."""
    if not isinstance(value, (str, list, tuple)):
        return [], [f"{name}: {value!r} is not a list"]
    try:
        return unfold_hosts(value if isinstance(value, str) else [str(node) for node in value]), []
    except ValueError as exc:
        return [], [f"{name}: {exc}"]


def _problems(options: Options) -> list[str]:
    """Return the problems with typed options."""
    problems = []
    if options["backend"] not in BACKENDS:
        problems.append(f"{option('backend')}: {options['backend']!r} is not one of {', '.join(BACKENDS)}")
    elif options["backend"] == "nccl" and not options["binary"] and not options["image"]:
        problems.append(
            f"{option('backend')}: nccl needs {option('binary')} (a path on the nodes) or {option('image')}"
        )
    elif options["backend"] == "mpi":
        problems += [
            f"{option(key)}: the backend mpi runs busbar's program and does not use {what}: remove it, or "
            f"set {option('backend')}=nccl"
            for key, what in (("binary", "nccl-tests"), ("image", "container image"))
            if options.get(key)
        ]
    problems += _inspector_problems(options)
    known = stage_registry.choices()
    problems += [
        f"{option('stages')}: {stage!r} is not one of {', '.join(known)}"
        for stage in options["stages"]
        if stage not in known
    ]
    if options["drift"] not in DRIFT:
        problems.append(f"{option('drift')}: {options['drift']!r} is not one of {', '.join(DRIFT)}")
    problems += collective_problems(options) or floor_problems(options)
    if not problems:
        problems += _node_problems(options)
    problems += queue_problems(options) + _reservation_problems(options)
    problems += _user_problems(options) + size_problems(options) + _topology_problems(options)
    return problems + [problem for stage in stage_registry.STAGES for problem in stage.problems(options)]


def _inspector_problems(options: Options) -> list[str]:
    path = options.get("inspector", "")
    if path and options["backend"] != "nccl":
        return [f"{option('inspector')}: requires {option('backend')}=nccl (found {options['backend']}): remove it"]
    if path and not (path.startswith("/") and path.isprintable()):
        return [f"{option('inspector')}: {path!r} is not an absolute path of libnccl-profiler-inspector.so"]
    return []


def _user_problems(options: Options) -> list[str]:
    user = options["user"]
    if not _USER.fullmatch(user):
        return [f"{option('user')}: {user!r} is not a valid user name"]
    if user == "root":
        return [f"{option('user')}: root cannot run tests: set an unprivileged user, such as busbar-validation"]
    return []


def _reservation_problems(options: Options) -> list[str]:
    name, resumed = options.get("reservation", ""), options.get("resume")
    problems = []
    if name and not _RESERVATION.fullmatch(name):
        problems.append(f"{option('reservation')}: {name!r} is not a valid reservation name")
    if name == OWN_NAME:
        problems.append(
            f"{option('reservation')}: busbar creates and deletes the reservation {name}: leave the option empty, or "
            "rename your reservation"
        )
    if resumed not in RESUMED:
        problems.append(f"{option('resume')}: {resumed!r} is not one of {', '.join(RESUMED)}")
    return problems


def _topology_problems(options: Options) -> list[str]:
    switch_of: dict[str, str] = {}
    for switch, nodes in options["topology"].items():
        for node in nodes:
            if switch_of.setdefault(node, switch) != switch:
                return [f"{option('topology')}: {node} is listed under {switch_of[node]} and {switch}"]
    return _contradictions(switch_of, options["slurm_topology"])


def _contradictions(switch_of: dict[str, str], declared: dict[str, list[str]]) -> list[str]:
    """Return a problem if the topology option contradicts Slurm's topology."""
    other_of = {node: switch for switch, nodes in declared.items() for node in nodes}
    both = [node for node in switch_of if node in other_of]
    places: dict[str, str] = {}
    for mine, theirs in ((switch_of, other_of), (other_of, switch_of)):
        places.clear()
        for node in both:
            first = places.setdefault(mine[node], node)
            if theirs[first] != theirs[node]:
                one, other = (option("topology"), "slurm_topology")[:: 1 if mine is switch_of else -1]
                conflict = f"{one} has {first} and {node} under {mine[node]}"
                but = f"{other} under {theirs[first]} and {theirs[node]}"
                return [f"{option('topology')}: {conflict}, {but}: remove {option('topology')}"]
    return []


def _node_problems(options: Options) -> list[str]:
    nodes = options["nodes"]
    if not nodes:
        return [f"{option('nodes')}: is empty: list at least one compute node"]
    strange = [node for node in nodes if node not in options["pool"]]
    if strange:
        known = fold_hosts(options["pool"])
        return [f"{option('nodes')}: {fold_hosts(strange)} is not a compute node (known: {known})"]
    used = sorted({options["hardware"].get(node) or "" for node in nodes} & set(options["catalogue"]))
    return [one_line(each) for name in used for each in profile_problems(name, options["catalogue"][name])]
