"""Which nodes are new to a running cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..common.hostlist import fold_hosts, unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["new_nodes"]

_NODE = re.compile(r"^NodeName=(\S+)", re.MULTILINE)


def new_nodes(declared: Sequence[str], shown: str, asked: str | Sequence[str] = "") -> list[str]:
    """Return the nodes to be added, in the inventory's order.

    Args:
        declared: compute nodes of the inventory.
        shown: output of ``scontrol --oneliner show nodes``.
        asked: nodes that were asked for, as a list or folded; these and no others, also when Slurm knows them already.

    Raises:
        ValueError: a node that was asked for is no compute node of the inventory.
    """
    if asked:
        wanted = set(unfold_hosts(asked))
        strangers = wanted - set(declared)
        if strangers:
            message = f"{fold_hosts(strangers)}: no compute node of the inventory; put it into the group slurm_compute"
            raise ValueError(message)
        return [name for name in declared if name in wanted]
    known = set(_NODE.findall(shown))
    return [name for name in declared if name not in known]
