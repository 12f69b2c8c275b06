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

from typing import TYPE_CHECKING

from ..module_utils.catalogue.collectives import program_path

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_program(binary: object, collective: object) -> str:
    """Return the program of a collective."""
    return program_path(str(binary), str(collective))


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return names and functions."""
        return {"nccl_program": nccl_program}
