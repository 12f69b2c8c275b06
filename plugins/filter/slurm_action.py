"""Filter that says how changed configuration files of Slurm come into force."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_action
author: busbar contributors
short_description: How changed configuration files of Slurm come into force
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
    description: Output of C(scontrol --version); empty when Slurm was not there.
    type: str
    required: true
"""

EXAMPLES = r"""
action: "{{ written.diff | busbar.cluster.slurm_action('slurm-wlm 24.11.5') }}"
"""

RETURN = r"""
_value:
  description: One of C(none), C(reconfigure) and C(restart).
  type: str
"""

from ..module_utils.slurm.change import change_action
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.slurm_action`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_action": border(change_action)}
