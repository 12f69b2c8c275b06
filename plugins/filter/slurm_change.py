"""Filter that says how changed configuration files of Slurm come into force, and what takes them back."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_change
author: busbar contributors
short_description: How changed configuration files of Slurm come into force, and what takes them back
description:
  - Compares the old and new texts of changed files.
  - Since Slurm 23.11 C(scontrol reconfigure) takes almost every change without a restart; before, it did not.
options:
  _input:
    description: The C(diff) of M(busbar.cluster.files).
    type: list
    elements: dict
    required: true
  version:
    description: Output of C(slurmctld -V); empty when it is not known, so that every change asks for a restart.
    type: str
    default: ""
"""

EXAMPLES = r"""
action: "{{ (written.diff | busbar.cluster.slurm_change('slurm-wlm 24.11.5')).action }}"
"""

RETURN = r"""
_value:
  description:
    - C(action), one of C(none), C(reconfigure) and C(restart).
    - C(old_files), the files as they were, as entries of the option O(busbar.cluster.files#module:files).
  type: dict
"""

from ..module_utils.slurm.change import slurm_change
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.slurm_change`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_change": border(slurm_change)}
