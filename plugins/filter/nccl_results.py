# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_results."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_results
short_description: Judge the tests of a step of a validation
description:
  - Parses and judges the outputs, and adds them to what is known.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The options of a validation, as the role busbar.cluster.nccl_validation gathers them.
    type: dict
    required: true
  state:
    description: What was known before; nothing before the first tests.
    type: dict
  step:
    description: What P(busbar.cluster.nccl_plan#filter) gave.
    type: dict
    required: true
  result:
    description: What M(busbar.cluster.slurm_tests) returned.
    type: dict
    required: true
  outputs:
    description: The results of the loop that fetched the outputs, one per test.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Judge
  ansible.builtin.set_fact:
    state: "{{ options | busbar.cluster.nccl_results(state, step, result, fetched.results) }}"
"""

RETURN = r"""
_value:
  description: What is known now, for P(busbar.cluster.nccl_plan#filter) and P(busbar.cluster.nccl_report#filter).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.stages import with_results  # noqa: TID252 - the collection's name stands in no import

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_results(
    options: dict[str, Any],
    state: dict[str, Any] | None,
    step: dict[str, Any],
    result: dict[str, Any],
    outputs: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return what is known after a step."""
    texts = [str(item.get("stdout", "")) if item.get("rc") == 0 else None for item in outputs]
    try:
        return with_results(options, state, step, result, texts)
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_results: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_results": nccl_results}
