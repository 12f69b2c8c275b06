"""Module that validates a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation
author: busbar contributors
short_description: Validate the performance of nodes
description:
  - Plans tests, runs them as batch jobs with M(busbar.cluster.slurm_tests), fetches and judges their output, and
    continues stage by stage until the verdict is known. Then drains the failed nodes if requested.
  - Runs as an action plugin where ansible-playbook runs. Delegate the task to the Slurm controller. Outputs are fetched
    from the nodes with their connection variables of the inventory.
  - Saves each output in the folder of the report as soon as its job has ended.
  - Cancels its jobs and writes a report with the results so far however it ends, including an interruption or an
    unresponsive controller. The task fails only if its arguments are wrong, not because of a test result.
version_added: "0.1.0"
attributes:
  check_mode:
    support: full
    description: Runs no tests in check mode; V(checked) works as usual.
options:
  options:
    description: The options of a validation, as the role busbar.cluster.validation gathers them.
    type: dict
    required: true
  reports_dir:
    description: >-
      Directory of the reports on the machine that runs ansible-playbook. Each report has a folder named by its time,
      and the link C(latest) points to the last.
    type: path
    required: true
  state:
    description:
      - V(done) runs the validation.
      - V(checked) only checks the arguments and whether reports can be written, and fails if not.
    type: str
    choices: [checked, done]
    default: done
  share:
    description: Whether to test nodes beside other running jobs.
    type: bool
    default: false
  home:
    description: Home directory of the user who runs the jobs.
    type: path
    default: /nonexistent
  output_limit:
    description: Maximum size of the saved output of one test, such as V(512M). Longer output is not judged.
    type: str
    default: 1G
"""

EXAMPLES = r"""
- name: Validate the nodes
  busbar.cluster.validation:
    options: "{{ __validation_options }}"
    reports_dir: reports
  register: validation
  delegate_to: ctl
"""

RETURN = r"""
advice:
  description: Tests without a known minimum, which will end without a verdict, with the remedy.
  type: list
  elements: str
  returned: when state is V(checked) and the arguments are right
queues:
  description: Combinations of C(partition), C(account) and C(qos) of the jobs.
  type: list
  elements: dict
  returned: when state is V(checked) and the arguments are right
verdict:
  description: One of V(PASS), V(FAIL) and V(INCONCLUSIVE).
  type: str
  returned: when the validation ran
reason:
  description: Reason of the verdict.
  type: str
  returned: when the validation ran
busy_allowed:
  description: Whether only other users' jobs prevented V(PASS), and this is allowed.
  type: bool
  returned: when the validation ran
not_tested:
  description: >-
    Whether only nodes in use by others or out of service prevented V(PASS); no other test failed.
  type: bool
  returned: when the validation ran
passed:
  description: Nodes that were drained before and passed, whether or not they are resumed.
  type: list
  elements: str
  returned: when the validation ran
lines:
  description: The summary.
  type: list
  elements: str
  returned: when the validation ran
folder:
  description: Folder of the report. Empty if it could not be written.
  type: str
  returned: when the validation ran
problem:
  description: Reason why the report could not be written. Empty if it was.
  type: str
  returned: when the validation ran
metrics:
  description: Path of C(busbar.prom). Empty if it could not be written.
  type: str
  returned: when the validation ran
pages_problem:
  description: Reason why the pages could not be rendered. Empty if they were.
  type: str
  returned: when the validation ran
incomplete:
  description: Whether a page could not be written because of the disk.
  type: bool
  returned: when the validation ran
link_problem:
  description: Reason why C(latest) does not point to the report. Empty if it does.
  type: str
  returned: when the report was written
"""
