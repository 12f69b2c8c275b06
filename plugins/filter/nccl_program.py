# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_program."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_program
short_description: Name the program of nccl-tests for a collective
description:
  - Gives the program beside the one that is known, with the same suffix.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description:
      - Path of any program of nccl-tests, or of their folder (with a slash at the end). Empty when they are on the
        path. A path that is neither is a wrapper for one collective, and is given back as it is.
    type: str
    required: true
  collective:
    description: Such as V(alltoall).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Look for the program
  ansible.builtin.stat:
    path: "{{ '/opt/nccl-tests/all_reduce_perf' | busbar.cluster.nccl_program('alltoall') }}"
"""

RETURN = r"""
_value:
  description: The path.
  type: str
"""

from ..module_utils.catalogue.collectives import program_path
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.nccl_program`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nccl_program": border(program_path)}
