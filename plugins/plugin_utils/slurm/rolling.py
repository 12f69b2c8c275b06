"""Plan the nodes and batches of a rolling update, and resume an interrupted update."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ...module_utils.slurm.busbar_drain_reasons import UPDATE_REASON
from ...module_utils.slurm.nodes_and_jobs import jobs_on, parse_nodes
from ..engine.common.hostlist import fold_hosts, unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *%")
_NUMBER = re.compile(r"[0-9]+")
_ALL = 100.0
_OUT = ("drain", "down", "fail", "maint", "boot", "reboot", "power", "unknown")


class _Cluster(NamedTuple):
    """The compute nodes, the hosts of this run, hosts with other roles by group, and locations of nodes."""

    compute: Sequence[str]
    limited: Sequence[str]
    needed: Mapping[str, Sequence[str]]
    places: Mapping[str, Mapping[str, str]]


def share_of(given: object, whole: int, key: str, least: int) -> int:
    """Return the number of nodes from a number or a percentage such as 25%, rounded down but at least `least`.

    Raises:
        ValueError: if the value is neither, or out of bounds.
    """
    text = str(given).strip()
    share = _SHARE.fullmatch(text)
    if share:
        percent = float(share.group(1))
        if percent > _ALL or (least and not percent):
            message = f"{key}: {text}: set {'more than 0 %, at most' if least else '0 % to'} 100 %"
            raise ValueError(message)
        return max(least, math.floor(whole * percent / _ALL + 1e-9))
    if not _NUMBER.fullmatch(text) or int(text) < least:
        message = (
            f"{key}: {text!r}: set a number of nodes{' of at least 1' if least else ''} or a percentage such as 25%"
        )
        raise ValueError(message)
    return int(text)


def _allowed(options: Mapping[str, Any], batch: int) -> int:
    """Return how many nodes of a batch may fail before the update stops.

    Raises:
        ValueError: if the option is neither a number nor a percentage.
    """
    return share_of(options["max_failures"], batch, "update_nodes_max_failures", 0)


def cut(nodes: Sequence[str], size: int, places: Mapping[str, str] | None = None) -> list[list[str]]:
    """Return batches of at most `size` nodes; with `places` (node to switch or rack), each of nodes in one place."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        groups.setdefault((places or {}).get(node, ""), []).append(node)
    return [group[at : at + size] for group in groups.values() for at in range(0, len(group), size)]


def rolling_plan(
    options: Mapping[str, Any],
    cluster: Mapping[str, Any],
    seen: Mapping[str, str],
    state: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the plan of a rolling update.

    Args:
        options: `nodes`, `batch`, `by` ('', 'switch' or 'rack'), `max_failures`, and further values that identify the
            update.
        cluster: `compute`, the compute nodes of the inventory; `limited`, the hosts of this run; `needed`, hosts with
            other roles, by group; `switches`, from `slurm_topology`; `rack` by node.
        seen: `nodes`, the output of ``sinfo -h -N -a -o '%N|%T|%E'``, and `queue`, that of ``squeue -h -a -o
            '%i|%u|%N'``.
        state: state of an earlier run: `key`, `done`, `ended`.

    Returns:
        Only `problems`, or `batches`, `keepers` (a pseudo host for each batch), `serial` (hosts per batch including its
        keeper), `allowed` (failures per batch), `skipped` (nodes with reasons), `finished` (nodes that an earlier run
        updated), `key`, and `lines`, the plan as text.
    """
    where = _Cluster(
        cluster["compute"],
        cluster["limited"],
        cluster["needed"],
        {"switch": _switches(cluster.get("switches") or ()), "rack": cluster.get("rack") or {}},
    )
    known = parse_nodes(seen["nodes"])
    try:
        wanted = list(dict.fromkeys(unfold_hosts(options["nodes"] or "")))
    except ValueError as error:
        return {"problems": [f"update_nodes: {error}"]}
    problems, size = _problems(options, where, wanted, known)
    if problems:
        return {"problems": problems}
    key = _key(options, wanted)
    before = state if state and not state.get("ended") else {}
    done = [node for node in before.get("done", []) if node in wanted] if before.get("key") == key else []
    skipped = _skipped(where, wanted, known)
    finished = [node for node in done if node not in skipped and not _is_own(known[node])]
    left = [node for node in wanted if node not in skipped and node not in finished]
    # Nodes that an interrupted run left drained come first.
    left.sort(key=lambda node: not _is_own(known[node]))
    batches = cut(left, size, where.places.get(str(options["by"])))
    strays = [node for node, each in known.items() if _is_own(each) and node not in wanted]
    jobs = jobs_on(seen["queue"], left)
    return {
        "problems": [],
        "key": key,
        "batches": batches,
        # Ansible aborts the playbook if all hosts of a batch are unreachable; an additional pseudo host prevents this.
        "keepers": [f"update-batch-{number}" for number in range(1, len(batches) + 1)],
        "serial": [len(batch) + 1 for batch in batches],
        "allowed": [_allowed(options, len(batch)) for batch in batches],
        "finished": finished,
        "skipped": skipped,
        "lines": _lines(batches, finished, skipped, jobs, strays),
    }


def _switches(declared: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the leaf switch or block of each node."""
    return {node: str(each["name"]) for each in declared for node in unfold_hosts(each.get("nodes") or "")}


def _problems(
    options: Mapping[str, Any], where: _Cluster, wanted: Sequence[str], known: Mapping[str, tuple[str, str]]
) -> tuple[list[str], int]:
    """Return the problems with the requested update, and the batch size."""
    if not wanted:
        return ["update_nodes is empty: set it, such as -e 'update_nodes=gpu[1-16]'"], 0
    found, size = [], 0
    for name in sorted(set(wanted) - set(where.compute)):
        near = difflib.get_close_matches(name, where.compute, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        found.append(f"update_nodes: {name} is not a compute node of the inventory (slurm_compute){hint}")
    absent = fold_hosts(name for name in wanted if name in where.compute and name not in known)
    if absent:
        found.append(f"update_nodes: node {absent} does not exist in Slurm; `sinfo -N` lists all nodes")
    for group, hosts in where.needed.items():
        both = [name for name in wanted if name in hosts]
        if both:
            found.append(
                f"update_nodes: {fold_hosts(both)} is also in the group {group}, whose services the update would stop: "
                "remove it from update_nodes, and update it manually"
            )
    try:
        size = share_of(options["batch"], len(wanted), "update_nodes_batch", 1)
        _allowed(options, size)
    except ValueError as error:
        found.append(str(error))
    by = str(options["by"])
    if by and by not in where.places:
        found.append(f"update_nodes_by: {by!r}: use switch or rack, or remove the option")
    elif by:
        lost = [name for name in wanted if name in where.compute and name not in where.places[by]]
        remedy = {"switch": "slurm_topology", "rack": "nvlink_domain"}[by]
        if lost:
            found.append(f"update_nodes_by: the {by} of {fold_hosts(lost)} is unknown: set {remedy}")
    return found, size


def _skipped(where: _Cluster, wanted: Sequence[str], known: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the skipped nodes with the reason."""
    found = {}
    for node in wanted:
        state, reason = known[node]
        if node not in where.limited:
            found[node] = "outside of --limit"
        elif not _is_own(known[node]) and (state.startswith(_OUT) or "*" in state):
            found[node] = f"{state.rstrip('*')}{': ' + reason if reason else ''}"
    return found


def _is_own(node: tuple[str, str]) -> bool:
    # The reason of a failed update begins with it.
    return node[1].startswith(UPDATE_REASON)


def _key(options: Mapping[str, Any], wanted: Sequence[str]) -> str:
    """Return the key of an update; runs that differ only in batch size and failure limit have the same key."""
    what = {name: value for name, value in options.items() if name not in {"nodes", "batch", "by", "max_failures"}}
    text = json.dumps([sorted(wanted), what], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lines(
    batches: Sequence[Sequence[str]],
    finished: Sequence[str],
    skipped: Mapping[str, str],
    jobs: Mapping[str, Sequence[str]],
    strays: Sequence[str],
) -> list[str]:
    found = [f"already updated by an earlier run: {fold_hosts(finished)}"] if finished else []
    found += [f"{node} is skipped: {why}" for node, why in skipped.items()]
    for number, batch in enumerate(batches, 1):
        waits = [f"{node}: {', '.join(jobs[node])}" for node in batch if node in jobs]
        found.append(
            f"batch {number} of {len(batches)}: {fold_hosts(batch)}"
            + (f", waits for {'; '.join(waits)}" if waits else ", idle")
        )
    if strays:
        found.append(
            f"{fold_hosts(strays)} is drained by another update that was interrupted: repeat that update, or "
            f"scontrol update nodename={fold_hosts(strays)} state=resume"
        )
    return found if batches else [*found, "no node is left to update" if skipped else "all nodes are up to date"]
