# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter nccl_report."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_report
short_description: Judge the tests of a validation and make its report
description:
  - Parses and judges the outputs of all tests and says PASS, FAIL or INCONCLUSIVE about the cluster.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  _input:
    description: The options of a validation, as the role busbar.cluster.nccl_validation gathers them.
    type: dict
    required: true
  tests:
    description: What P(busbar.cluster.nccl_plan#filter) gave.
    type: list
    elements: dict
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
    report: "{{ options | busbar.cluster.nccl_report(tests, result, fetched.results) }}"
"""

RETURN = r"""
_value:
  description: The report under report, one line per test under lines, and the files to write under files.
  type: dict
"""

import json
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.validation import report, summary_lines  # noqa: TID252 - the collection's name stands in no import

if TYPE_CHECKING:
    from collections.abc import Callable


def nccl_report(
    options: dict[str, Any], tests: list[dict[str, Any]], result: dict[str, Any], outputs: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the report of a validation, its summary, and the files in which both are kept."""
    texts = [str(item.get("stdout", "")) if item.get("rc") == 0 else None for item in outputs]
    try:
        data = report(options, tests, result, texts)
    except (KeyError, TypeError, ValueError) as exc:
        message = f"nccl_report: {exc}"
        raise AnsibleFilterError(message) from exc
    files = [{"name": "report.json", "content": json.dumps(data, indent=2) + "\n"}]
    files += [
        {"name": test["output"], "content": text + "\n"}
        for test, text in zip(data["tests"], texts, strict=False)
        if test["output"] and text
    ]
    return {"report": data, "lines": summary_lines(data), "files": files}


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return names and functions."""
        return {"nccl_report": nccl_report}
