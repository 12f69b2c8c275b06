"""Filter that tells which jobs run in an NVLink rack."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvlink_rack_jobs
author: busbar contributors
short_description: Jobs on the members of an NVLink rack
description: Jobs on the members of an NVLink rack.
options:
  _input:
    description: What C(squeue -h -o '%N|job %i of %u') printed.
    type: str
    required: true
  members:
    description: Names of the members in Slurm.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
jobs: "{{ answer.stdout | busbar.cluster.nvlink_rack_jobs(['gpu1', 'gpu2']) }}"
"""

RETURN = r"""
_value:
  description: Each job with its nodes among the members.
  type: list
  elements: str
"""

from ..module_utils.slurm.driver_drain import jobs_of_rack
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.nvlink_rack_jobs`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nvlink_rack_jobs": border(jobs_of_rack)}
