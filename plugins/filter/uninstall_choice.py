"""Filter that returns the hosts to uninstall, in order."""

from __future__ import annotations

DOCUMENTATION = r"""
name: uninstall_choice
author: busbar contributors (!UNKNOWN)
short_description: Order the hosts to uninstall
description:
  - Groups hosts by uninstallation step. Compute nodes are drained first; servers with clients are uninstalled last.
options:
  _input:
    description: Host names, as a list or folded, such as C(gpu[3-4]).
    type: raw
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
"""

EXAMPLES = r"""
chosen: "{{ 'gpu[3-4],ctl' | busbar.cluster.uninstall_choice(groups) }}"
"""

RETURN = r"""
_value:
  description: Lists C(names) (all), C(compute), C(clients) and C(servers).
  type: dict
"""

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.uninstall.choice import uninstall_choice

FilterModule = filter_module("uninstall_choice", uninstall_choice)
