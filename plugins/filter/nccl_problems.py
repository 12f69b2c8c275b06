# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_problems
short_description: Name what is wrong with the options of a validation
description:
  - Checks backend, sizes and nodes, and gives one sentence with the remedy for each fault.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The options of a validation, as the role busbar.cluster.validation gathers them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse wrong options
  ansible.builtin.assert:
    that: (__validation_options | busbar.cluster.nccl_problems) | length == 0
"""

RETURN = r"""
_value:
  description: The faults; an empty list when there are none.
  type: list
  elements: str
"""

from ..module_utils.validation.inputs import all_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.nccl_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nccl_problems": border(all_problems)}
