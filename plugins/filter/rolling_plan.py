"""Filter that splits a rolling update into batches."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rolling_plan
author: busbar contributors (!UNKNOWN)
short_description: Plan a rolling update
description: Splits the nodes into batches. Leaves out skipped nodes and those that an earlier run has updated.
options:
  _input:
    description: >-
      The requested update, with C(nodes), C(batch), C(by), C(max_failures), and the values that identify an update.
    type: dict
    required: true
  cluster:
    description: Inventory data of the nodes; C(compute), C(limited), C(needed), C(switches), C(rack).
    type: dict
    required: true
  seen:
    description: Output of sinfo (C(nodes)) and squeue (C(queue)).
    type: dict
    required: true
  state:
    description: State of an earlier run.
    type: dict
"""

EXAMPLES = r"""
plan: "{{ asked | busbar.cluster.rolling_plan(cluster, seen, state) }}"
"""

RETURN = r"""
_value:
  description: >-
    C(problems), C(batches), C(allowed), C(skipped), C(finished), C(key), C(lines), and C(holder), which describes this
    run. If the state contains the C(holder) of another run that may still be running, C(problems) reports it.
  type: dict
"""

import dataclasses
from typing import TYPE_CHECKING, Any

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.run_lock import Holder, other_run
from ..plugin_utils.slurm.rolling import rolling_plan

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(
    request: Mapping[str, Any],
    cluster: Mapping[str, Any],
    seen: Mapping[str, str],
    state: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the plan, or a problem if another update is running."""
    left = state or {}
    other = "" if left.get("ended", True) else other_run(left.get("holder"))
    if other:
        problem = (
            f"another update is running: {other}. Wait until it ends. If it was killed, delete "
            "/var/lib/busbar/update_nodes.json on the first controller; the next update then starts over "
            "with all nodes"
        )
        return {"problems": [problem]}
    return rolling_plan(request, cluster, seen, state) | {"holder": dataclasses.asdict(Holder.here())}


FilterModule = filter_module("rolling_plan", plan)
