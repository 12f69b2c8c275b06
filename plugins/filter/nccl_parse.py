# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_parse."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_parse
short_description: Read the output of nccl-tests
description:
  - Reads the table of any program and version of nccl-tests, or its JSON file; never fails on a text.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The output.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Read an output
  ansible.builtin.set_fact:
    data: "{{ lookup('ansible.builtin.file', 'run.out') | busbar.cluster.nccl_parse }}"
"""

RETURN = r"""
_value:
  description: A dictionary with the key runs, one entry per table.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.nccl.output import parse_text

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_parse(text: object) -> dict[str, list[dict[str, Any]]]:
    """Return the runs in an output of nccl-tests."""
    if not isinstance(text, str):
        message = f"nccl_parse wants text, not {type(text).__name__}"
        raise AnsibleFilterError(message)
    return parse_text(text)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_parse": nccl_parse}
