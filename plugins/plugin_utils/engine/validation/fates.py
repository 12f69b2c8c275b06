# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Says what became of the nodes that a validation drained, or that were drained before and tested all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ....module_utils.slurm.new_reason import is_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Fate", "node_fates"]


class Fate(NamedTuple):
    """What became of a node.

    Attributes:
        what: drained, behind the gate, not drained, resumed, not resumed or stays drained.
        node: its name.
        why: the reason of the drain, or the problem.
    """

    what: str
    node: str
    why: str


def node_fates(
    drained: Iterable[Mapping[str, str]],
    resumed: Iterable[Mapping[str, str]],
    held: Mapping[str, str],
    held_by: Mapping[str, str],
    reasons: Mapping[str, str],
) -> list[Fate]:
    """Return what became of nodes, as a report has it.

    Args:
        drained: nodes that were to be drained, each with the problem, empty when it worked.
        resumed: nodes that were to be resumed, likewise.
        held: nodes that were drained before, each with the reason.
        held_by: who had drained these, and when; not all need be there.
        reasons: why nodes were to be drained; those that are new stay behind the gate for that.
    """
    before = {node: f"{why} ({held_by[node]})" if held_by.get(node) else why for node, why in held.items()}
    new = {node: why for node, why in reasons.items() if is_new(why)}
    fates = [
        Fate("behind the gate", item["node"], new[item["node"]])
        if item["node"] in new and not item["problem"]
        else Fate("not drained" if item["problem"] else "drained", item["node"], item["problem"])
        for item in drained
    ]
    fates += [
        Fate("not resumed", item["node"], item["problem"])
        if item["problem"]
        else Fate("resumed", item["node"], f"was drained: {before.get(item['node'], '')}")
        for item in resumed
    ]
    told = {fate.node for fate in fates}
    return fates + [Fate("stays drained", node, why) for node, why in sorted(before.items()) if node not in told]
