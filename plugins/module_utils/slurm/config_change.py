"""Decide how a change to Slurm's configuration is applied, and whether nodes are ready."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .busbar_drain_reasons import is_new
from .releases import release
from .slurm_drain_reasons import matching_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["changed_keys", "old_files", "parse_config", "slurm_action", "unready_nodes"]

# Since 23.11 `scontrol reconfigure` starts a new slurmctld process; older releases only re-read some keys.
FORKING = (23, 11)
# Even a forking reconfigure cannot change sockets, authentication, the state location and the systemd unit.
ALWAYS_RESTART = frozenset(
    {
        "authalttypes",
        "authinfo",
        "authtype",
        "busbar.conf",
        "clustername",
        "credtype",
        "slurmctldaddr",
        "slurmctldhost",
        "slurmctldport",
        "slurmdport",
        "slurmuser",
        "statesavelocation",
    }
)
# Releases before 23.11 read these only at startup.
OLD_RESTART = frozenset({"gres.conf", "grestypes", "nodename", "nodeset", "slurmctldparameters", "topologyplugin"})
_OLD_RESTART_PATTERN = re.compile(r".*(type|plugins?)")
_READY = frozenset({"idle", "mixed", "allocated", "completing", "planned", "reserved", "maint", "powering_up"})
_DRAINED = frozenset({"drained", "draining"})
_FLAGS = "*~#!%$@^-+"
_FIELDS = 4


def parse_config(text: str) -> dict[str, list[str]]:
    """Return the values of each key of slurm.conf; keys are in lower case."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, separator, value = line.split("#", 1)[0].strip().partition("=")
        if separator:
            found.setdefault(key.strip().lower(), []).append(" ".join(value.split()))
    return found


def changed_keys(before: str, after: str) -> list[str]:
    """Return the keys, in lower case and sorted, that differ between two versions of slurm.conf."""
    old, new = parse_config(before), parse_config(after)
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def old_files(changes: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return the files that revert changes, as entries for the `templates` module.

    Args:
        changes: one entry per changed file: the path in `before_header`, the content in `before` and `after`.
    """
    return [
        {
            "path": change["before_header"],
            "content": change["before"],
            "state": "present" if change["before"] else "absent",
        }
        for change in changes
    ]


def slurm_action(changes: Iterable[Mapping[str, str]], version: str) -> str:
    """Return how changed files are applied: 'none', 'reconfigure' or 'restart'.

    Args:
        changes: see `old_files`.
        version: output of `slurmctld -V`; empty if unknown.

    Raises:
        ValueError: the version is invalid.
    """
    action = "none"
    for change in changes:
        if change.get("before", "") == change.get("after", ""):
            continue
        name = change.get("before_header", "").split(" ")[0].rsplit("/", 1)[-1]
        if _needs_restart(name, change.get("before", ""), change.get("after", ""), version):
            return "restart"
        action = "reconfigure"
    return action


def _needs_restart(name: str, before: str, after: str, version: str) -> bool:
    """Return whether one changed file requires a restart of slurmctld."""
    if not version or (name == "slurm.conf" and not before):
        return True
    keys = set(changed_keys(before, after)) if name == "slurm.conf" else {name}
    if keys & ALWAYS_RESTART:
        return True
    if release(version) >= FORKING:
        return False
    return bool(keys & OLD_RESTART) or any(_OLD_RESTART_PATTERN.fullmatch(key) for key in keys)


def unready_nodes(text: str, wanted: Iterable[str]) -> list[str]:
    """Return a line 'node: state (reason)' for each node that cannot run jobs and was not drained on purpose.

    Args:
        text: the output of ``sinfo -h -N -o '%N|%T|%u|%E'``.
        wanted: names of the nodes that should be ready.
    """
    states = {}
    for line in text.splitlines():
        fields = line.split("|", _FIELDS - 1)
        if len(fields) == _FIELDS:
            states[fields[0].strip()] = [field.strip() for field in fields[1:]]
    problems = []
    for name in wanted:
        if name not in states:
            problems.append(f"{name}: not a node in Slurm")
        elif not _is_ready(*states[name]):
            state, _, reason = states[name]
            problems.append(f"{name}: {state}{f' ({reason})' if reason not in {'', 'none'} else ''}")
    return problems


def _is_ready(state: str, by: str, reason: str) -> bool:
    """Return whether a node is up; one drained by an administrator or before its validation counts as ready."""
    base = state.rstrip(_FLAGS).lower()
    if "*" in state:
        return False
    return base in _READY or (base in _DRAINED and (not _is_set_by_slurm(by, reason) or is_new(reason)))


def _is_set_by_slurm(by: str, reason: str) -> bool:
    """Return whether Slurm drained a node.

    If a drained node stops responding, slurmctld appends a reason after " : " and becomes the author of the whole
    reason, which stays when the node returns (node_mgr.c; seen with 24.11).
    """
    first, joined, _ = reason.partition(" : ")
    return by in {"slurm", "64030", "Unknown"} and not (joined and not matching_reasons(first))
