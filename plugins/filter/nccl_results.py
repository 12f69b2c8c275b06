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
    description: The options of a validation, as the role busbar.cluster.validation gathers them.
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
    description: What P(busbar.cluster.nccl_answer#filter) made of the controller's answer.
    type: dict
    required: true
  outputs:
    description: The results of the loop that fetched the outputs, one per test.
    type: list
    elements: dict
    required: true
  most:
    description: How many bytes of output count; a longer one is none.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Judge
  ansible.builtin.set_fact:
    state: "{{ options | busbar.cluster.nccl_results(state, step, answer, fetched.results, 1048576) }}"
"""

RETURN = r"""
_value:
  description: What is known now, for P(busbar.cluster.nccl_plan#filter) and P(busbar.cluster.nccl_report#filter).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation.stages import with_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..module_utils.validation.model import State, Step


def nccl_results(  # noqa: PLR0913, PLR0917 - as Ansible hands them over
    options: dict[str, Any],
    state: State | None,
    step: Step,
    result: dict[str, Any],
    outputs: list[dict[str, Any]],
    most: int,
) -> State:
    """Return what is known after a step."""
    texts = [str(item.get("stdout", "")) if item.get("rc") == 0 else None for item in outputs]
    try:
        return with_results(options, state, step, *_bounded(result, texts, int(most)))
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_results: {exc}"
        raise AnsibleFilterError(message) from exc


def _bounded(answer: dict[str, Any], texts: list[str | None], most: int) -> tuple[dict[str, Any], list[str | None]]:
    """Return answer and texts without those that are too long, whose entries say so."""
    long = [text is not None and len(text.encode(errors="surrogateescape")) > most for text in texts]
    if not any(long):
        return answer, texts
    problem = {"problem": f"the output is longer than {most} bytes"}
    entries = [{**entry, **problem} if far else entry for far, entry in zip(long, answer["tests"], strict=True)]
    return {**answer, "tests": entries}, [None if far else text for far, text in zip(long, texts, strict=True)]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_results": nccl_results}
