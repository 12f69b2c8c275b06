#!/usr/bin/python
"""Module that writes the pages of a validation's report."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_report
author: busbar contributors
short_description: Write a validation's report for people, CI and Prometheus
description:
  - Writes C(report.html), C(junit.xml) and C(busbar.prom) beside a C(report.json), and compares it with the earlier
    reports beside it.
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
  state:
    description:
      - V(present) writes the files.
      - V(writable) only looks whether the folder is one, or could be made, and may be written.
    type: str
    choices: [present, writable]
    default: present
"""

EXAMPLES = r"""
- name: Write the pages
  busbar.cluster.validation_report:
    folder: reports/20261120T080000Z
"""

RETURN = r"""
paths:
  description: The files written.
  type: list
  elements: str
  returned: when files were written
"""
