"""Filter that tells with which partitions, accounts and QOS a validation submits its jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
name: validation_queues
author: busbar contributors
short_description: Partitions, accounts and QOS of a validation's jobs
description: Returns each combination that the jobs of a validation are submitted with, by the hardware of their nodes.
version_added: "0.1.0"
positional: _input
options:
  _input:
    description: The options of a validation, as M(busbar.cluster.validation) takes them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show them
  ansible.builtin.debug:
    msg: "{{ __validation_options | busbar.cluster.validation_queues }}"
"""

RETURN = r"""
_value:
  description: Each with C(partition), C(account) and C(qos), empty for Slurm's default; none when all are.
  type: list
  elements: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.engine.validation.inputs import typed
from ..plugin_utils.engine.validation.queues import queues


def _queues(options: dict[str, object]) -> list[dict[str, str]]:
    return queues(typed(options))


class FilterModule:
    """The filter `busbar.cluster.validation_queues`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"validation_queues": border(_queues)}
