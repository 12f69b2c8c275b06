"""Decide whether a node may be drained for a driver change, and resumed afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from .hostlist import expand_hosts
from .nodes_and_jobs import parse_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["DRAIN_REASON", "jobs_of_rack", "node_service", "unknown_jobs"]

# Prefix of busbar's drain reasons for driver changes.
DRAIN_REASON = "busbar: NVIDIA driver"
_OUT = ("drain", "down", "fail", "maint", "boot", "reboot", "power")


class NodeService(TypedDict):
    """The state of a node in Slurm.

    `known`: Slurm has the node. `drain`: drain the node. `ours`: resume the node after success; a node that an
    administrator or Slurm took out of service keeps its state and reason.
    """

    known: bool
    drain: bool
    ours: bool
    answers: bool
    state: str
    reason: str


def node_service(node: str, text: str) -> NodeService:
    """Return the state of a node from the output of ``sinfo -h -N -o '%N|%T|%E'``."""
    state, reason = parse_nodes(text).get(node, ("", ""))
    out = state.startswith(_OUT)
    mine = reason.startswith(DRAIN_REASON)
    return {
        "known": bool(state),
        "drain": bool(state) and not out,
        "ours": bool(state) and (mine or not out),
        "answers": bool(state) and "*" not in state and not state.startswith("unknown"),
        "state": state,
        "reason": reason,
    }


def unknown_jobs(node: str, answer: Mapping[str, Any], daemons: Collection[str]) -> str:
    """Return why the jobs of a node are unknown, or '' if they are known or Slurm does not manage the node.

    Args:
        node: name of the node.
        answer: result of ``sinfo -h -N -o '%N|%T|%E'``: `rc`, `stdout`, `stderr`, `msg`; empty if sinfo did not run.
        daemons: which of slurmd and slurmstepd run on the node.
    """
    if answer.get("rc") == 0:
        known = node in parse_nodes(str(answer.get("stdout") or ""))
        stray = not known and "slurmstepd" in daemons
        return "slurmstepd is running, but Slurm has no node of this name" if stray else ""
    if not daemons:
        return ""  # the cluster is still being set up
    error = str(answer.get("stderr") or answer.get("msg") or "").strip() or "no answer"
    return f"{min(daemons)} is running, but sinfo failed: {error}"


def jobs_of_rack(text: str, members: Sequence[str]) -> list[str]:
    """Return the jobs on the nodes of a rack, from lines of ``squeue -h -o '%N|job %i of %u'``, each with its nodes.

    Args:
        text: output of squeue.
        members: names of the nodes.
    """
    found = []
    for line in text.splitlines():
        nodes, _, job = line.partition("|")
        here = [node for node in expand_hosts(nodes) if node in members] if nodes else []
        if here:
            found.append(f"{job} on {', '.join(here)}")
    return found
