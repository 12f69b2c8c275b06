"""Filter that finds the secrets which hosts hold and the provisioning host lacks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: held_secret_problems
author: busbar contributors
short_description: Secrets that hosts hold and the provisioning host lacks
description: Secrets that hosts hold and the provisioning host lacks.
options:
  _input:
    description: Names of the hosts of the run.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  answer:
    description: Name of the variable that holds a host's answer of M(busbar.cluster.held_secrets).
    type: str
    required: true
  controller:
    description: C(name) and C(answer) of a controller outside of the run; an empty answer when it was not asked.
    type: dict
    required: true
  site:
    description:
      - C(directory) of the secrets, the names C(absent) there, the secrets C(known) with C(meaning), those to be
        C(rotated), and the C(others), hosts outside of the run.
    type: dict
    required: true
"""

EXAMPLES = r"""
problems: "{{ ansible_play_hosts | busbar.cluster.held_secret_problems(hostvars, 'found', controller, site) }}"
"""

RETURN = r"""
_value:
  description: The problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.access.held_secrets import Site, held_problems
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..module_utils.common.problems import Problem


def problems(
    hosts: list[str],
    hostvars: Mapping[str, Mapping[str, Any]],
    answer: str,
    controller: Mapping[str, Any],
    site: Site,
) -> list[Problem]:
    """Return the secrets that would be lost."""
    answers = {host: hostvars[host].get(answer) or {} for host in hosts}
    return held_problems(answers, (controller["name"], controller["answer"]), site)


class FilterModule:
    """The filter `busbar.cluster.held_secret_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"held_secret_problems": border(problems)}
