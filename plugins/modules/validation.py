"""Module that validates a cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validation
author: busbar contributors (!UNKNOWN)
short_description: Validate the performance of nodes
description:
  - Runs the tests of each stage as batch jobs with M(busbar.cluster.slurm_tests) and evaluates their output until the
    verdict is known, then drains the failed nodes if requested. Delegate the task to the Slurm controller. If the task
    is interrupted, it cancels its jobs and still writes a report.
  - Fails only if its arguments are wrong, not because of a test result. Runs no tests in check mode.
extends_documentation_fragment: busbar.cluster.attributes
options:
  options: {description: Options of the role validation without the prefix C(validation_)., type: dict, required: true}
  reports_dir: {description: Folder of the reports., type: path, required: true}
  state: {description: "V(checked) only checks the arguments.", type: str, choices: [checked, done], default: done}
  share: {description: Whether to test nodes that also run other jobs., type: bool, default: false}
  home: {description: Home directory of the user of the jobs., type: path, default: /nonexistent}
  output_limit: {description: Maximum size of a test's output., type: str, default: 1G}
"""

EXAMPLES = r"""
- busbar.cluster.validation: {options: {}, reports_dir: reports}
"""

RETURN = r"""
advice: {description: Tests without a known minimum., returned: when checked, type: list, elements: str}
verdict: {description: "V(PASS), V(FAIL) or V(INCONCLUSIVE).", returned: when it ran, type: str}
folder: {description: Folder of the report or empty., returned: when it ran, type: str}
"""
