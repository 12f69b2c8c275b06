"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: replacement_problems
author: busbar contributors
short_description: What is wrong with a request to replace nodes
description: What is wrong with a request to replace nodes.
options:
  _input:
    description: Names of the nodes, as a list or folded.
    type: raw
    required: true
  groups:
    description: The variable C(groups).
    type: dict
    required: true
  fingerprints:
    description: Fingerprints of host keys that the user vouches for.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
problems: "{{ 'gpu3' | busbar.cluster.replacement_problems(groups) }}"
"""

RETURN = r"""
_value:
  description: Problems, each with C(hosts), C(key), C(problem) and C(remedy).
  type: list
  elements: dict
"""

from ..module_utils.slurm.replacement import replacement_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.replacement_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"replacement_problems": border(replacement_problems)}
