"""Module that validates a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation
author: busbar contributors
short_description: Validate that nodes are as fast as they should be
description:
  - Plans tests, runs them as batch jobs with M(busbar.cluster.slurm_tests), fetches what they print, judges it, and
    goes on, stage by stage, until the verdict is known; then drains whom it blames, where that is asked for.
  - An action plugin of the same name does this from where ansible-playbook runs. Delegate the task to the controller of
    Slurm; the outputs are fetched from the nodes as their own variables in the inventory say.
  - Each output is saved in the folder of the report as soon as its job has ended.
  - Whatever ends it, also an interruption or a controller that does not answer, its jobs are cancelled and a report
    remains that says what is known. The task fails only when its arguments are wrong, and never for what a test says.
version_added: "0.1.0"
attributes:
  check_mode:
    support: full
    description: Runs nothing in check mode; V(checked) does its work there, too.
options:
  options:
    description: The options of a validation, as the role busbar.cluster.validation gathers them.
    type: dict
    required: true
  reports_dir:
    description: >-
      Where on the machine that ansible-playbook runs on reports are kept. Each has a folder named by its time, and the
      link C(latest) leads to the last.
    type: path
    required: true
  state:
    description:
      - V(done) runs the validation.
      - V(checked) only checks the arguments, and whether reports can be kept; it fails when they are wrong.
    type: str
    choices: [checked, done]
    default: done
  share:
    description: Test nodes on which other jobs run, beside them.
    type: bool
    default: false
  home:
    description: Home directory of the user of the jobs.
    type: path
    default: /nonexistent
  output_limit:
    description: The most that is kept of the output of one test, such as V(512M). What is longer is judged by nobody.
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
  description: Tests that will end without a verdict since no floor is known, with the remedy.
  type: list
  elements: str
  returned: when state is V(checked) and the arguments are right
queues:
  description: Each combination of C(partition), C(account) and C(qos) that jobs are submitted with.
  type: list
  elements: dict
  returned: when state is V(checked) and the arguments are right
verdict:
  description: One of V(PASS), V(FAIL) and V(INCONCLUSIVE).
  type: str
  returned: when the validation ran
reason:
  description: Why.
  type: str
  returned: when the validation ran
busy_allowed:
  description: Whether nothing but the jobs of others kept it from V(PASS), and that is allowed.
  type: bool
  returned: when the validation ran
not_tested:
  description: >-
    Whether nothing but nodes that others have, or that are out of service, kept it from V(PASS); no other test failed.
  type: bool
  returned: when the validation ran
passed:
  description: The nodes that were drained before and have passed, whether they are resumed or not.
  type: list
  elements: str
  returned: when the validation ran
lines:
  description: The summary.
  type: list
  elements: str
  returned: when the validation ran
folder:
  description: Folder of the report; empty when it could not be written.
  type: str
  returned: when the validation ran
problem:
  description: Why the report could not be written; empty when it could.
  type: str
  returned: when the validation ran
metrics:
  description: Path of C(busbar.prom); empty when it could not be written.
  type: str
  returned: when the validation ran
pages_problem:
  description: Why the pages could not be drawn; empty when they could.
  type: str
  returned: when the validation ran
incomplete:
  description: Whether a page could not be written because the disk did not take it.
  type: bool
  returned: when the validation ran
link_problem:
  description: Why C(latest) does not lead to the report; empty when it does.
  type: str
  returned: when the report was written
"""
