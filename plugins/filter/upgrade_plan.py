"""Filter that plans an upgrade of Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
name: upgrade_plan
author: busbar contributors (!UNKNOWN)
short_description: Plan an upgrade of Slurm
description: Determines the order of the hosts, the old and new versions, and the problems that prevent the upgrade.
options:
  _input:
    description: Result of M(busbar.cluster.slurm_release) of each reachable host, by name.
    type: dict
    required: true
  cluster:
    description: The hosts of C(slurm_database), C(slurm_controller), C(slurm_compute) and C(slurm_login).
    type: dict
    required: true
  seen:
    description: Output of sinfo (C(nodes)) and squeue (C(queue)). Empty if slurmctld does not answer.
    type: dict
    required: true
  batch:
    description: Number or percentage of compute nodes per batch.
    type: raw
    default: 25%
"""

EXAMPLES = r"""
plan: "{{ hosts | busbar.cluster.upgrade_plan(groups, {'nodes': '', 'queue': ''}) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(stages), C(serial), C(packages), C(versions), C(stops), C(left), C(drained), C(lines).
  type: dict
"""

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.slurm.upgrade import upgrade_plan

FilterModule = filter_module("upgrade_plan", upgrade_plan)
