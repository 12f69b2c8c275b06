# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_plan
short_description: Say which tests of a validation to run next
description:
  - Drives a validation stage by stage and, when all together fail, the culprit search round by round.
  - Keeps nothing between calls. Run its tests with M(busbar.cluster.slurm_tests), give what came back to
    P(busbar.cluster.nccl_results#filter), and call again, until there are no tests.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The options of a validation, as the role busbar.cluster.validation gathers them.
    type: dict
    required: true
  state:
    description: What P(busbar.cluster.nccl_results#filter) gave last; nothing before the first tests.
    type: dict
  now:
    description: Seconds since 1970, for the bounds of the validation.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Plan
  ansible.builtin.set_fact:
    step: "{{ options | busbar.cluster.nccl_plan(state, now().timestamp()) }}"
"""

RETURN = r"""
_value:
  description:
    - C(stage), C(tests) (each with C(job) for the module), C(wait) and C(time_limit) in seconds, C(stopped),
      C(skipped), and C(budget), which says in one line what is going to run.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation.stages import budget, next_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..module_utils.validation.model import State


def nccl_plan(options: dict[str, Any], state: State | None, now: float) -> dict[str, Any]:
    """Return the tests to run next."""
    try:
        return {**next_step(options, state, float(now)), "budget": budget(options)}
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_plan: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_plan": nccl_plan}
