# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_answer."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_answer
short_description: Check a controller's answer to the tests of a validation
description:
  - Takes over only nodes that were asked for and numbers of jobs, and works out the path of each output here.
    So a controller does not decide where the provisioning host reads and deletes.
  - Where a value cannot be, there are no tests in the answer, and RV(_value) says in C(msg) what is wrong.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The options of a validation, as the role busbar.cluster.validation gathers them.
    type: dict
    required: true
  step:
    description: What P(busbar.cluster.nccl_plan#filter) gave.
    type: dict
    required: true
  result:
    description: What M(busbar.cluster.slurm_tests) returned.
    type: dict
    required: true
  controller:
    description: Name of the controller, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check the answer
  ansible.builtin.set_fact:
    answer: "{{ options | busbar.cluster.nccl_answer(step, result, 'ctl') }}"
"""

RETURN = r"""
_value:
  description: C(tests), each with C(output), the path on C(batch_host); C(node_reasons) and C(msg).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation.controller_answer import (
    checked_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..module_utils.validation.model import Result, Step


def nccl_answer(options: dict[str, Any], step: Step, result: dict[str, Any], controller: str) -> Result:
    """Return the answer, of values that were checked."""
    try:
        return checked_answer(options, step, result, controller)
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_answer: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_answer": nccl_answer}
