# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_judge."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_judge
short_description: Judge runs of nccl-tests
description:
  - Says PASS, FAIL or INCONCLUSIVE about the runs of one test, with the reason.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The runs, as P(busbar.cluster.nccl_parse#filter) gives them under runs.
    type: list
    elements: dict
    required: true
  profile:
    description: The entry of the hardware catalogue.
    type: dict
    required: true
  nodes:
    description: How many nodes were asked for.
    type: int
    required: true
  ranks:
    description: How many ranks were asked for; by default one per GPU.
    type: int
  floor_gbs:
    description: A floor in GB/s instead of that of the profile.
    type: float
  allow_unchecked:
    description: Let results pass that nobody checked.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Judge an output
  ansible.builtin.set_fact:
    verdict: "{{ (text | busbar.cluster.nccl_parse).runs | busbar.cluster.nccl_judge(hardware_catalogue.dgx_h100, 2) }}"
"""

RETURN = r"""
_value:
  description: The verdict with reason, measured_busbw, at_size, floor, ceiling, source and findings.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation.judge import Asked, judge

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_judge(  # noqa: PLR0913 - the options of the filter
    runs: list[dict[str, Any]],
    profile: dict[str, Any] | None,
    nodes: int,
    *,
    ranks: int | None = None,
    floor_gbs: float | None = None,
    allow_unchecked: bool = False,
) -> dict[str, Any]:
    """Return the verdict on the runs of one test."""
    try:
        asked = Asked(nodes=int(nodes), ranks=ranks, floor=floor_gbs, allow_unchecked=allow_unchecked)
        return judge(runs, profile, asked)
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_judge: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_judge": nccl_judge}
