"""Filter that works out Slurm's configuration from the inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_plan
author: busbar contributors
short_description: Slurm's configuration from the inventory
description:
  - Works out the lines of slurm.conf, gres.conf and topology.conf for all compute nodes of the inventory, whatever the
    run is limited to. Reads variables only, never facts.
  - Lines are folded, so that a thousand equal nodes make one line.
options:
  _input:
    description: Names of the compute nodes.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  declared:
    description:
      - What is declared for the cluster, with the keys C(catalogue), C(controllers), C(databases), C(logins),
        C(partitions), C(groups), C(config), C(own), C(topology), C(accounting), C(health), C(job_scripts),
        C(scripts_folder), C(checks_partition), C(state_shared) and C(state_directory).
      - C(own) are the role's keys of slurm.conf; those of C(config), the site's, take their place.
    type: dict
    required: true
"""

EXAMPLES = r"""
plan: "{{ groups['slurm_compute'] | busbar.cluster.slurm_plan(hostvars, declared) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems) is a list as M(busbar.cluster.refuse) takes it; when it is not empty the rest is left out.
    - C(config), C(nodes), C(partitions), C(gres) and C(topology) are lists of lines.
    - C(plugins) are those by which nodes detect their GPUs, such as V(gpu_nvml); Slurm must have them.
  type: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.slurm.plan import slurm_plan


class FilterModule:
    """The filter `busbar.cluster.slurm_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_plan": border(slurm_plan)}
