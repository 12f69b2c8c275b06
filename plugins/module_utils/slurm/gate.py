"""The gate before nodes that are new to a cluster: drained before they can take a job, until their validation passes.

A line DownNodes in slurm.conf drains them: slurmctld applies it where it makes its table of nodes, before any slurmd
can register (_handle_all_downnodes in Slurm's read_config.c). From then on the saved state keeps them drained, so the
line is there only for as long as slurmctld needs to read it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .conf_text import read_cluster
from .hostlist import expand_hosts
from .new_reason import NEW_REASON, is_new

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["gate_lines", "gated_in_file"]

_DOWN_NODES = re.compile(r'^\s*DownNodes=(\S+)[^#\n]*\bReason="([^"\n]*)"', re.IGNORECASE | re.MULTILINE)


def gated_in_file(text: str) -> set[str]:
    """Return the nodes that a slurm.conf drains as new: slurmctld may not have read it yet."""
    return {node for names, reason in _DOWN_NODES.findall(text) if is_new(reason) for node in expand_hosts(names)}


def gate_lines(before: str, nodes: Iterable[str]) -> list[str]:
    """Return the line of slurm.conf that drains the nodes which are new to the cluster; no line if no node is new.

    The first configuration of a cluster drains no node: there are no users yet whose jobs could wait.

    Args:
        before: the present slurm.conf; empty if there is no file.
        nodes: the nodes of the new one.
    """
    if not before.strip():
        return []
    known = set(read_cluster(before).nodes) - gated_in_file(before)
    new = [name for name in nodes if name not in known]
    return [f'DownNodes={",".join(new)} State=DRAIN Reason="{NEW_REASON}"'] if new else []
