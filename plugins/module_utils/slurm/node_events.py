"""Parse node states, node events and failed jobs in the output of scontrol, sacctmgr and sacct."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .hostlist import expand_hosts
from .node_states import node_state, split_state
from .nodes_and_jobs import parse_job

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["EVENTS", "FAILED_JOBS", "NODES", "NODE_FAILURES", "TIMES", "failed_jobs", "node_events", "nodes_now"]

# All Slurm commands then print seconds since 1970, independent of the time zone.
TIMES = {"SLURM_TIME_FORMAT": "%s"}

NODES = ("scontrol", "--oneliner", "show", "nodes")
# The reason comes last because it is free text. Events with an empty node name concern the cluster.
EVENTS = ("sacctmgr", "--noheader", "--parsable2", "show", "event", "format=nodename,start,end,state,user,reason")
# FailedNode is the node whose failure stopped the job (sacct(1)). Without --duplicates sacct prints only the last run
# of a requeued job.
_FIELDS = "--format=JobIDRaw,State,ExitCode,User,NNodes,NodeList,FailedNode,End,JobName"
FAILED_JOBS = ("sacct", "--allusers", "--allocations", "--duplicates", "--noheader", "--parsable2", _FIELDS)
# States caused by a node; other failures may be the job's fault.
NODE_FAILURES = ("NODE_FAIL", "BOOT_FAIL")
_EVENT_FIELDS = 6
_JOB_FIELDS = 9
_NOTHING = frozenset({"", "none", "None", "None assigned", "Unknown", "(null)", "N/A", "n/a"})
_SIGNED = re.compile(r"^(.*?)(?:\s*\[([^\[\]@\s]*)@([^\[\]]*)\])?$", re.DOTALL)
_USER = re.compile(r"\(\d+\)$")


def _plain(text: str) -> str:
    return "" if text.strip() in _NOTHING else text.strip()


def _when(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdigit() else None


def nodes_now(text: str) -> dict[str, dict[str, Any]]:
    """Parse the output of `NODES` by node: `state` in one word, `flags`, `reason`, `by`, `since`, `booted`, `version`.

    Raises:
        ValueError: the output has no node.
    """
    found = {}
    for line in text.splitlines():
        values = parse_job(line)
        if "NodeName" not in values or "State" not in values:
            continue
        words = split_state(values["State"])
        signed = _SIGNED.match(_plain(values.get("Reason", "")))
        reason, by, since = signed.groups() if signed else ("", "", "")
        found[values["NodeName"]] = {
            "state": node_state(words),
            "flags": "+".join(words),
            "reason": reason or "",
            "by": by or "",
            "since": _when(since),
            "booted": _when(values.get("BootTime")),
            "version": _plain(values.get("Version", "")),
        }
    if not found:
        message = f"scontrol returned no nodes: {text.strip()[:200]}"
        raise ValueError(message)
    return found


def node_events(text: str, nodes: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Parse the output of `EVENTS`, oldest first: `node`, `from`, `until` (None: ongoing), `state`, `by`, `reason`.

    Args:
        text: output of the command.
        nodes: nodes to include; None for all.
    """
    found = []
    for line in text.splitlines():
        fields = line.split("|", _EVENT_FIELDS - 1)
        if len(fields) != _EVENT_FIELDS or not fields[0] or (nodes is not None and fields[0] not in nodes):
            continue
        node, begin, end, state, user, reason = map(_plain, fields)
        by = _USER.sub("", user)
        times = {"from": _when(begin), "until": _when(end)}
        found.append({"node": node, **times, "state": state, "by": by, "reason": reason})
    return sorted(found, key=lambda each: (each["from"] or 0, each["node"]))


def failed_jobs(text: str, nodes: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return the jobs in the output of `FAILED_JOBS`, oldest first; their `nodes` is a host list.

    Args:
        text: output of the command.
        nodes: include only jobs on these nodes; None for all jobs.
    """
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        fields = line.split("|", _JOB_FIELDS - 1)
        if len(fields) != _JOB_FIELDS:
            continue
        job, state, code, user, count, folded, failed, end, name = map(_plain, fields)
        own = _unfolded(folded)
        if not own or (nodes is not None and not set(own) & set(nodes)):
            continue
        found.append(
            {
                "job": job,
                "name": name,
                "state": state.partition(" ")[0],
                "exit": code,
                "user": user,
                "end": _when(end),
                "nodes": folded,
                "count": int(count) if count.isdigit() else len(own),
                # If a job had one node, that node failed.
                "failed_nodes": _unfolded(failed) or (own if len(own) == 1 else []),
            }
        )
    return sorted(found, key=lambda each: (each["end"] or 0, each["job"]))


def _unfolded(folded: str) -> list[str]:
    try:
        return expand_hosts(folded) if folded else []
    except ValueError:
        return []
