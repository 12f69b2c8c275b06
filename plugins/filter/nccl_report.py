# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_report."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_report
short_description: Make the report of a validation
description:
  - Says PASS, FAIL or INCONCLUSIVE about the cluster, who is to blame, and whom to drain.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The options of a validation, as the role busbar.cluster.validation gathers them.
    type: dict
    required: true
  state:
    description: What P(busbar.cluster.nccl_results#filter) gave last.
    type: dict
    required: true
  stopped:
    description: Why the validation ended before its time, as P(busbar.cluster.nccl_plan#filter) said.
    type: str
    default: ""
  drained:
    description: The results of the loop that drained the nodes named in the report.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Report
  ansible.builtin.set_fact:
    report: "{{ options | busbar.cluster.nccl_report(state) }}"
"""

RETURN = r"""
_value:
  description: The report under report, the summary under lines, and the files to write under files.
  type: dict
"""

import json
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation.verdicts import report, summary_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..module_utils.validation.model import State


def nccl_report(
    options: dict[str, Any], state: State, stopped: str = "", drained: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the report of a validation, its summary, and the files in which both are kept."""
    done = [{"node": item["item"]["node"], "problem": _problem(item)} for item in drained or [] if "item" in item]
    try:
        data = report(options, state, stopped, done)
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_report: {exc}"
        raise AnsibleFilterError(message) from exc
    files = [{"name": "report.json", "content": json.dumps(data, indent=2) + "\n"}, *state["files"]]
    return {"report": data, "lines": summary_lines(data), "files": files}


def _problem(item: dict[str, Any]) -> str:
    """Return why a node could not be drained; nothing when it was."""
    if item.get("rc") == 0:
        return ""
    return str(item.get("stderr") or item.get("msg") or "no answer of the controller").strip()


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_report": nccl_report}
