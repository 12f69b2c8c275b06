# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Words that several writers of reports use."""

from __future__ import annotations

from ClusterShell.NodeSet import NodeSet, NodeSetException

__all__ = ["NONE", "folded", "gbs"]

NONE = "\u2013"


def folded(nodes: list[str]) -> str:
    """Return node names folded, as in ``gpu[17-20]``, or as a list when they are no names of nodes."""
    try:
        return str(NodeSet(",".join(nodes))) if nodes else ""
    except NodeSetException:
        return ", ".join(nodes)


def gbs(value: float | None) -> str:
    """Return a bandwidth in GB/s, or a dash where there is none."""
    return NONE if value is None else f"{value:.4g}"
