"""Whose drain is it: may a node be taken out of service for its driver, and put back afterwards?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from .hostlist import expand_hosts
from .jobs import parse_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["DRAIN_REASON", "NodeService", "jobs_of_rack", "node_service", "unknown_jobs"]

# What the reason of every drain of ours begins with.
DRAIN_REASON = "busbar: NVIDIA driver"
_OUT = ("drain", "down", "fail", "maint", "boot", "reboot", "power")


class NodeService(TypedDict):
    """How Slurm has a node.

    `known`: Slurm has it. `drain`: it is to be drained. `ours`: when all is well, it is to be resumed; a node that an
    admin, or Slurm for its own reasons, had out of service stays so, with its reason.
    """

    known: bool
    drain: bool
    ours: bool
    answers: bool
    state: str
    reason: str


def node_service(node: str, text: str) -> NodeService:
    """Return how Slurm has a node, from the output of ``sinfo -h -N -o '%N|%T|%E'``."""
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
    """Return why nobody can say whether a node has jobs; '' when Slurm can, or when it has nothing to do with the node.

    Args:
        node: its name.
        answer: result of the command ``sinfo -h -N -o '%N|%T|%E'``: `rc`, `stdout`, `stderr`, `msg`; empty when nobody
            could be asked.
        daemons: which of slurmd and slurmstepd run on the node itself.
    """
    if answer.get("rc") == 0:
        known = node in parse_nodes(str(answer.get("stdout") or ""))
        stray = not known and "slurmstepd" in daemons
        return "slurmstepd runs on it, and Slurm has no node of this name" if stray else ""
    if not daemons:
        return ""  # a cluster that is only being made
    said = str(answer.get("stderr") or answer.get("msg") or "").strip() or "no answer"
    return f"{min(daemons)} runs on it, and sinfo fails: {said}"


def jobs_of_rack(text: str, members: Sequence[str]) -> list[str]:
    """Return what runs on some nodes, from lines of ``squeue -h -o '%N|job %i of %u'``, each with its nodes.

    Args:
        text: what squeue printed.
        members: names of the nodes.
    """
    found = []
    for line in text.splitlines():
        nodes, _, job = line.partition("|")
        here = [node for node in expand_hosts(nodes) if node in members] if nodes else []
        if here:
            found.append(f"{job} on {', '.join(here)}")
    return found
