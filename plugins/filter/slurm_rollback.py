"""Filter that returns the files of Slurm as they were before a change."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_rollback
author: busbar contributors
short_description: The files of Slurm as they were before a change
description: Turns the C(diff) of M(busbar.cluster.files) round.
options:
  _input:
    description: The C(diff) of M(busbar.cluster.files).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
files: "{{ written.diff | busbar.cluster.slurm_rollback }}"
"""

RETURN = r"""
_value:
  description: Entries of the option O(busbar.cluster.files#module:files).
  type: list
  elements: dict
"""

from ..module_utils.slurm.change import rollback_files
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.slurm_rollback`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_rollback": border(rollback_files)}
