"""Documentation of the action `busbar.cluster.refuse`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: refuse
author: busbar contributors (!UNKNOWN)
short_description: Fail with problems that the user can fix
description:
  - Fails if there are O(problems) or O(msg) is set. Runs on the provisioning host.
  - C(busbar provision) and C(busbar validate) exit with code 2 (bad input) if all failures come from this module.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  problems:
    description:
      - Problems, each with C(hosts), C(key), C(problem) and C(remedy). All are listed at once.
      - A problem with C(advice) does not fail the task.
    type: list
    elements: dict
    default: []
  headline:
    description: First line of the message, above the problems.
    type: str
    default: "This step changed nothing:"
  msg:
    description: Message with host, option and remedy. Requires a condition (C(when)) on the task.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Validate the declaration of CUDA
  busbar.cluster.refuse:
    problems: "{{ plan.problems }}"
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
  description: True. Distinguishes this failure from failures of the host or of busbar.
  returned: failure
  type: bool
"""
