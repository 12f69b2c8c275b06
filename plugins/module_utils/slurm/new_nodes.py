"""Keep new nodes of a cluster drained until their validation passes.

A DownNodes line in slurm.conf drains them before any slurmd can register, because slurmctld applies it while it builds
the node table (_handle_all_downnodes in Slurm's read_config.c). The saved state then keeps them drained, so the line is
only needed until slurmctld has read it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .busbar_drain_reasons import NEW_REASON, is_new
from .hostlist import expand_hosts
from .slurm_conf import read_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["gate_lines", "gated_in_file"]

_DOWN_NODES = re.compile(r'^\s*DownNodes=(\S+)[^#\n]*\bReason="([^"\n]*)"', re.IGNORECASE | re.MULTILINE)


def gated_in_file(text: str) -> set[str]:
    """Return the nodes that a slurm.conf drains as new; slurmctld may not have read the file yet."""
    return {node for names, reason in _DOWN_NODES.findall(text) if is_new(reason) for node in expand_hosts(names)}


def gate_lines(before: str, nodes: Iterable[str]) -> list[str]:
    """Return the slurm.conf line that drains the cluster's new nodes; empty if there are no new nodes.

    A cluster's first configuration drains no nodes, because no user jobs can start yet.

    Args:
        before: the current slurm.conf; empty if it does not exist.
        nodes: nodes of the new slurm.conf.
    """
    if not before.strip():
        return []
    known = set(read_cluster(before).nodes) - gated_in_file(before)
    new = [name for name in nodes if name not in known]
    return [f'DownNodes={",".join(new)} State=DRAIN Reason="{NEW_REASON}"'] if new else []
