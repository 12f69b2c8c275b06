"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: spank_plan
author: busbar contributors
short_description: Which SPANK plugins are to be built, and what each host is to have
description: Compares the declared plugins with what the hosts have and with what lies built in the store.
options:
  _input:
    description: Items of C(slurm_spank_plugins).
    type: list
    elements: dict
    required: true
  infos:
    description: For each host what M(busbar.cluster.spank_info) returned as C(spank).
    type: dict
    required: true
  builders:
    description: For each host that builds what M(busbar.cluster.spank_info) found there.
    type: dict
    required: true
  directory:
    description: Where hosts keep the libraries.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ slurm_spank_plugins | busbar.cluster.spank_plan(infos, {'ctl': build_info}, '/usr/local/lib/busbar/spank') }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems), as the filter C(problem_report) takes them; C(build), for each host that must build
      the plugins; C(hosts), what each host is to have; C(send), the ids of the libraries that some host lacks;
      C(stores), by id the host that keeps a library.
  type: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.slurm.spank_plan import spank_plan


class FilterModule:
    """The filter `busbar.cluster.spank_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"spank_plan": border(spank_plan)}
