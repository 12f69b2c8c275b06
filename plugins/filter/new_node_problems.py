"""Filter that says which new nodes are machines that Slurm has under another name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: new_node_problems
author: busbar contributors
short_description: New nodes that Slurm has under another name
description:
  - Compares names and addresses of the new machines with those of the nodes that Slurm has.
  - A machine that is in the cluster under another name may run jobs, and a join would end them.
options:
  _input:
    description: The new nodes.
    type: list
    elements: str
    required: true
  shown:
    description: Output of C(scontrol --oneliner show nodes).
    type: str
    required: true
  machines:
    description: By node its name, the state of its slurmd and its addresses, each on lines of their own.
    type: dict
    required: true
  forgotten:
    description: Output of C(getent hosts) for the nodes of Slurm that the inventory does not have.
    type: str
    default: ""
"""

EXAMPLES = r"""
problems: "{{ ['gpu3'] | busbar.cluster.new_node_problems(shown.stdout, {'gpu3': said.stdout}) }}"
"""

RETURN = r"""
_value:
  description: One entry per problem, with C(hosts), C(key), C(problem) and C(remedy).
  type: list
  elements: dict
"""

from ..module_utils.slurm.new_nodes import new_node_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.new_node_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"new_node_problems": border(new_node_problems)}
