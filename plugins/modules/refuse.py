"""Documentation of the action `busbar.cluster.refuse`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: refuse
author: busbar contributors
short_description: End a host's run for what its user can put right
description:
  - Fails when there are O(problems), or O(msg) is given, else does nothing. It runs on the provisioning host.
  - C(busbar provision) and C(busbar validate) end with exit code 2, bad input, when all that failed was refused in this
    way.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  problems:
    description:
      - Problems, each with C(hosts), C(key), C(problem) and C(remedy). All are listed at once.
      - One with C(advice) does not fail the task.
    type: list
    elements: dict
    default: []
  headline:
    description: Line before the problems.
    type: str
    default: "Nothing was changed:"
  msg:
    description: Text that names host, option and remedy itself. A task with it has a condition.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Validate the declaration of CUDA
  busbar.cluster.refuse:
    problems: "{{ plan.problems }}"

- name: Check that the archive can be verified
  busbar.cluster.refuse:
    msg: "{{ inventory_hostname }}: pyxis_sha256 is not set: set it to what sha256sum prints for the archive"
  when: pyxis_sha256 | length == 0
"""

RETURN = r"""
advice:
  description: Problems with C(advice), as lines of text.
  returned: always
  type: list
  elements: str
problems:
  description: The problems.
  returned: failure
  type: list
  elements: dict
busbar_refused:
  description: True, which tells this failure from one of the host or of busbar.
  returned: failure
  type: bool
"""
