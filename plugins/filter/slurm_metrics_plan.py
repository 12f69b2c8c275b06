"""Filter that says how Slurm's metrics are collected on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_metrics_plan
author: busbar contributors
short_description: How Slurm's metrics are collected on a host
description: How Slurm's metrics are collected on a host.
positional: said, config, host
options:
  _input:
    description: The options of the role C(slurm_metrics) without its name.
    type: dict
    required: true
  said:
    description: What C(slurmctld -V) printed; empty where it is not there yet.
    type: str
    required: true
  config:
    description: Keys of C(slurm.conf) that the site declares.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ settings | busbar.cluster.slurm_metrics_plan('slurm 25.11.2', slurm_config, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(native), C(user) and C(own_user).
  type: dict
"""

from ..module_utils.slurm.metrics_plan import slurm_metrics_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.slurm_metrics_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_metrics_plan": border(slurm_metrics_plan)}
