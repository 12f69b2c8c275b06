"""Filter that finds the nodes that may be repaired."""

from __future__ import annotations

DOCUMENTATION = r"""
name: repair_plan
author: busbar contributors
short_description: Nodes that may be repaired
description: Which nodes the health check has drained and nobody uses, and how often they were repaired.
options:
  _input:
    description: Names or folded names of nodes; empty for all that the health check has drained.
    type: raw
    required: true
  cluster:
    description: C(compute), the compute nodes of the inventory, and C(limited), the hosts of this run.
    type: dict
    required: true
  seen:
    description: Output of sinfo (C(nodes)) and squeue (C(queue)).
    type: dict
    required: true
  history:
    description: Text of the history of repairs.
    type: str
    required: true
  now:
    description: Seconds since 1970.
    type: float
    required: true
"""

EXAMPLES = r"""
plan: "{{ 'gpu[1-4]' | busbar.cluster.repair_plan(cluster, seen, history.text, history.now) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(nodes) and C(skipped).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.health.repairs import repair_plan
from ..plugin_utils.border import Filters, border
from ..plugin_utils.engine.common.hostlist import unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def planned(
    asked: str | Sequence[str],
    cluster: Mapping[str, Sequence[str]],
    seen: Mapping[str, str],
    history: str,
    now: float,
) -> dict[str, Any]:
    """Return the plan; the names may be folded."""
    try:
        names = list(dict.fromkeys(unfold_hosts(asked or "")))
    except ValueError as error:
        return {"problems": [f"repair_nodes: {error}"]}
    return repair_plan(names, cluster, seen, history, now)


class FilterModule:
    """The filter `busbar.cluster.repair_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"repair_plan": border(planned)}
