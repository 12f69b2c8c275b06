"""Filter that derives Slurm's configuration from the inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_plan
author: busbar contributors (!UNKNOWN)
short_description: Slurm configuration from the inventory
description:
  - Generates the lines of slurm.conf, gres.conf and topology.conf for all compute nodes of the inventory, regardless of
    the limit of the run. Reads variables only, not facts.
  - Combines equal nodes into one line.
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
      - Options and hosts of the cluster, with the keys C(catalogue), C(controllers), C(databases), C(logins),
        C(partitions), C(groups), C(config), C(own), C(topology), C(accounting), C(health), C(job_scripts),
        C(scripts_folder), C(checks_partition), C(state_shared) and C(state_directory).
      - C(own) contains the role's keys of slurm.conf, which the site's C(config) overrides.
    type: dict
    required: true
"""

EXAMPLES = r"""
plan: "{{ groups['slurm_compute'] | busbar.cluster.slurm_plan(hostvars, declared) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems) is a list for M(busbar.cluster.refuse). If it is not empty, the other keys are missing.
    - C(config), C(nodes), C(partitions), C(gres) and C(topology) are lists of lines.
    - C(plugins) are Slurm's GPU detection plugins for these nodes, such as V(gpu_nvml), which must be installed.
  type: dict
"""

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.slurm.config_from_inventory import slurm_plan

FilterModule = filter_module("slurm_plan", slurm_plan)
