#!/usr/bin/python
"""Module that writes the pages of a validation's report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_report
author: busbar contributors
short_description: Write a validation's report for people, CI and Prometheus
description:
  - Writes the files it is given, C(report.json) among them, then C(report.html), C(junit.xml) and C(busbar.prom) beside
    it, and compares it with the earlier reports beside it.
  - That the pages cannot be drawn is told in RV(pages_problem) and is no failure, for the files are there. Where the
    disk is what failed, RV(incomplete) is true, so that the caller can fail after it has told the verdict.
  - An action plugin of the same name does the work where ansible-playbook runs, so it needs no host and no connection.
attributes:
  check_mode:
    support: full
    description: Writes nothing in check mode.
options:
  folder:
    description: Folder of the report, on the machine that ansible-playbook runs on.
    type: path
    required: true
  files:
    description: Files to write into the folder first, such as the raw outputs of the tests.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the file, without a folder.
        type: str
        required: true
      content:
        description: What it holds.
        type: str
        required: true
  nodes:
    description:
      - The nodes that the cluster has. C(busbar.prom) holds the last figures of each, also of those that this
        validation was not about, and nothing of others.
      - Without it, of all that the last reports know.
    type: list
    elements: str
  state:
    description:
      - V(present) writes the files.
      - V(writable) only looks whether the folder is one, or could be made, and may be written.
    type: str
    choices: [present, writable]
    default: present
"""

EXAMPLES = r"""
- name: Write the report
  busbar.cluster.validation_report:
    folder: reports/20261120T080000Z
    files:
      - name: report.json
        content: "{{ report | to_json }}"
    nodes: "{{ groups['slurm_compute'] }}"
"""

RETURN = r"""
incomplete:
  description: Whether a page could not be written because the disk did not take it.
  type: bool
  returned: when files were written
metrics:
  description: The path of C(busbar.prom); empty when it could not be written.
  type: str
  returned: when files were written
paths:
  description: The files written.
  type: list
  elements: str
  returned: when files were written
pages_problem:
  description: Why the pages could not be drawn; empty when they could.
  type: str
  returned: when files were written
"""
