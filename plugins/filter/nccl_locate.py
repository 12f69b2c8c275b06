# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_locate."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_locate
short_description: Say which tests to run next, or who is guilty
description:
  - Finds the nodes, links and boundaries that make a cluster slow, round by round.
  - Keeps nothing between calls. Call it with all results so far, run the tests that it asks for (all at once, they have
    no common node), append their results, and call again until C(done).
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
  results:
    description:
      - Tests that ran, each with C(nodes), C(busbw) and C(floor) in GB/s, and C(outcome), one of V(ok), V(wrong),
        V(crashed), V(hung) and V(inconclusive).
    type: list
    elements: dict
    required: true
  topology:
    description: The nodes of each switch.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Ask what to test next
  ansible.builtin.set_fact:
    step: "{{ nodes | busbar.cluster.nccl_locate(results, {'leaf1': ['gpu1', 'gpu2'], 'leaf2': ['gpu3', 'gpu4']}) }}"
"""

RETURN = r"""
_value:
  description:
    - C(done), C(round), C(stage), C(tests) (a list of lists of nodes), and the conclusions C(nodes), C(links),
      C(boundaries) and C(unresolved), final when done.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.search.locate import locate

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_locate(
    nodes: list[str], results: list[dict[str, Any]], topology: dict[str, list[str]] | None = None
) -> dict[str, Any]:
    """Return the tests to run next, or who is guilty."""
    try:
        return locate(nodes, results, topology)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        message = f"nccl_locate: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_locate": nccl_locate}
