"""Filter that tells what of the nodes is worth a look."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight_advice
author: busbar contributors
short_description: What of the nodes is worth a look
description: Versions below a minimum, and kernels that wait for a boot; nothing of a run depends on them.
options:
  _input:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  answer:
    description:
      - Name of the variable that holds a host's answer of M(busbar.cluster.node_info).
      - A host without it is passed over.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what is worth a look
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts | busbar.cluster.preflight_advice(hostvars, 'node') }}"
"""

RETURN = r"""
_value:
  description: Each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.preflight.advice import node_advice
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..module_utils.common.problems import Problem


def advice(hosts: list[str], hostvars: Mapping[str, Mapping[str, Any]], answer: str) -> list[Problem]:
    """Return what is worth a look on all nodes."""
    answers = {host: hostvars[host].get(answer) or {} for host in hosts}
    return [each for host, found in answers.items() for each in node_advice(host, found.get("node") or {})]


class FilterModule:
    """The filter `busbar.cluster.preflight_advice`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"preflight_advice": border(advice)}
