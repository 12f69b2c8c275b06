"""Filter that cuts a rolling update into batches."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rolling_plan
author: busbar contributors
short_description: The batches of a rolling update
description: Which nodes are updated in which batches, which are left as they are, and what an earlier run has done.
options:
  _input:
    description: >-
      What was asked for: C(nodes), C(batch), C(by), C(max_failures), and what else makes two updates the same.
    type: dict
    required: true
  cluster:
    description: What the inventory says of the nodes; C(compute), C(limited), C(needed), C(switches), C(rack).
    type: dict
    required: true
  seen:
    description: Output of sinfo (C(nodes)) and squeue (C(queue)).
    type: dict
    required: true
  state:
    description: What an earlier run left.
    type: dict
"""

EXAMPLES = r"""
plan: "{{ asked | busbar.cluster.rolling_plan(cluster, seen, state) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(batches), C(allowed), C(skipped), C(finished), C(key), C(lines).
  type: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.slurm.rolling import rolling_plan


class FilterModule:
    """The filter `busbar.cluster.rolling_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"rolling_plan": border(rolling_plan)}
