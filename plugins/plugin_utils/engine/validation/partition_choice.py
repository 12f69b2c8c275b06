# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose partition, account and QOS of a validation's jobs by the hardware profile of the nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.hostlist import fold_hosts
from ..common.option_names_in_messages import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .validation_types import Options

QUEUE_OPTIONS = ("partition", "account", "qos")
# The key for all profiles that a dictionary does not list.
OTHERS = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+-]*")


def _by_profile(options: Options, key: str) -> dict[str, str]:
    """Return the values of an option by profile; a value for all profiles has the key OTHERS."""
    given: Any = options.get(key) or {}
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {OTHERS: str(given)}


def _values(options: Options, key: str, nodes: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of an option with their nodes; an empty value stands for Slurm's default."""
    table = _by_profile(options, key)
    found: dict[str, list[str]] = {}
    for node in nodes:
        value = table.get(options["hardware"].get(node) or OTHERS, table.get(OTHERS, ""))
        found.setdefault(value, []).append(node)
    return found


def queue_arguments(options: Options, nodes: list[str]) -> list[str]:
    """Return the sbatch arguments for a job on nodes that all have the same values."""
    chosen = {key: next(iter(_values(options, key, nodes)), "") for key in QUEUE_OPTIONS}
    return [f"--{key}={value}" for key, value in chosen.items() if value]


def queues(options: Options) -> list[dict[str, str]]:
    """Return the distinct combinations of partition, account and qos of the jobs, except those without any value."""
    found = []
    for node in options["nodes"]:
        entry = {key: next(iter(_values(options, key, [node]))) for key in QUEUE_OPTIONS}
        if any(entry.values()) and entry not in found:
            found.append(entry)
    return found


def queue_problems(options: Options) -> list[str]:
    """Return the problems with partition, account and QOS, each with its remedy."""
    problems = []
    for key in QUEUE_OPTIONS:
        found = _form_problems(options.get(key), option(key), options["catalogue"])
        problems += found or _mixed(options, key)
    return problems


def _form_problems(given: object, where: str, catalogue: Mapping[str, Any]) -> list[str]:
    """Return the problems with an option's form: it must be a name, or one for each hardware profile."""
    if given in (None, "", {}):
        return []
    if isinstance(given, str):
        return [] if _NAME.fullmatch(given) else [f"{where}: {given!r} is not a name"]
    if not isinstance(given, dict):
        return [f"{where}: {given!r} must be a name, or a dictionary of hardware profile to name"]
    strange = [str(profile) for profile in given if profile != OTHERS and profile not in catalogue]
    wrong = [profile for profile, name in given.items() if name != "" and not _NAME.fullmatch(str(name))]
    return [
        f"{where}: unknown hardware profile {profile!r}: use a profile from the inventory, or {OTHERS} for all others"
        for profile in strange
    ] + [f"{where}: {profile}: {given[profile]!r} is not a name" for profile in wrong]


def _mixed(options: Options, key: str) -> list[str]:
    """Return a problem if nodes that a stage tests together have different values of an option."""
    values = _values(options, key, options["nodes"])
    if len(values) < 2 or set(options["stages"]) <= {"node"}:  # noqa: PLR2004 - a single value fits all nodes
        return []
    words = " and ".join(f"{value or 'the default'} for {fold_hosts(nodes)}" for value, nodes in values.items())
    problem = f"{option(key)}: is {words}, but a job on all nodes requires the same value"
    remedy = (
        f"set a value that fits all, validate them separately with {option('nodes')}, or set {option('stages')}=node"
    )
    return [f"{problem}: {remedy}"]
