"""Filter that names the compute nodes that are not ready for jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_not_ready
author: busbar contributors
short_description: Compute nodes that are not ready for jobs
description: Reads the output of C(sinfo). A node that a person has drained counts as ready.
options:
  _input:
    description: Output of C(sinfo -h -N -o '%N|%T|%u|%E').
    type: str
    required: true
  nodes:
    description: Nodes that should be ready.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
unready: "{{ result.stdout | busbar.cluster.slurm_not_ready(['gpu1', 'gpu2']) }}"
"""

RETURN = r"""
_value:
  description: One line per node that is not ready, with its state and the reason.
  type: list
  elements: str
"""

from ..module_utils.slurm.change import unready_nodes
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.slurm_not_ready`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_not_ready": border(unready_nodes)}
