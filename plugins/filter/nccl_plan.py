# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_plan
short_description: Plan the tests of a validation
description:
  - Turns the options of a validation into tests for M(busbar.cluster.slurm_tests).
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The options of a validation, as the role busbar.cluster.nccl_validation gathers them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.set_fact:
    tests: "{{ __nccl_validation_options | busbar.cluster.nccl_plan }}"
"""

RETURN = r"""
_value:
  description: The tests.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation import plan  # noqa: TID252 - the collection's name stands in no import

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_plan(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tests of a validation."""
    try:
        return plan(options)
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_plan: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_plan": nccl_plan}
