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

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation.node_checks import check_problems
from ..module_utils.validation.storage.stage import storage_problems
from ..module_utils.validation.tests import input_problems, unknown_profiles
from ..module_utils.validation.training.stage import training_problems

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_problems(options: dict[str, Any]) -> list[str]:
    """Return what is wrong with the options of a validation."""
    try:
        problems = (
            input_problems(options) + check_problems(options) + storage_problems(options) + training_problems(options)
        )
        return problems or unknown_profiles(options)
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_problems: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_problems": nccl_problems}
