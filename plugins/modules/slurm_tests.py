# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Module slurm_tests: submit test jobs on chosen nodes, follow and end them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_tests
short_description: Submit, monitor and cancel test jobs on selected nodes
description:
  - Waits until the nodes of each test are idle, and submits all tests with C(sbatch). A node that is not idle by then,
    or on which no job can start, is left out and returned with its running jobs.
  - Monitors jobs until they end. Cancels a job that pends or runs too long.
  - Returns after O(patience) in any case, so that the caller always knows the current jobs and calls it again.
  - Does not fail if a job fails. The result describes the jobs, and the caller judges it.
  - Must run where C(sbatch) works. The jobs run as O(user) and inherit only C(PATH) from the task's environment.
    The module queries Slurm as the task's user. Changes no configuration.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  state:
    description:
      - V(submitted) waits for the nodes of O(tests) and submits their jobs. While it waits, it submits nothing and
        returns the reasons in RV(waits_for).
      - V(followed) waits until O(jobs) end.
      - V(cancelled) cancels O(jobs).
      - V(released) deletes the O(reservation) that was created for the tests.
      - V(checked) only checks that O(user) can submit to O(queues) and that O(reservation) can be used.
    type: str
    choices: [submitted, followed, cancelled, released, checked]
    default: submitted
  tests:
    description: The tests. All jobs are submitted at once.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the test; the job is called C(busbar-NAME).
        type: str
        required: true
      nodes:
        description: Nodes to test. A node that accepts no job is left out.
        type: list
        elements: str
        required: true
      candidates:
        description: Nodes that may serve as partners. Only idle ones are used.
        type: list
        elements: str
        default: []
      partners:
        description: Number of partners.
        type: int
        default: 0
      minimum:
        description: Minimum number of nodes of the test, including partners.
        type: int
        default: 1
      script:
        description: The batch script.
        type: str
        required: true
      arguments:
        description: Additional arguments of C(sbatch).
        type: list
        elements: str
        default: []
      output:
        description: Output file of the job on its first node; patterns of C(sbatch) are allowed.
        type: str
        required: true
  jobs:
    description: Submitted jobs, each as the latest entry of its test in RV(tests).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the test.
        type: str
        required: true
      job_id:
        description: ID of the job.
        type: str
        required: true
      nodes:
        description: Nodes of the job.
        type: list
        elements: str
        default: []
      state:
        description: State of the job. Empty if not known yet.
        type: str
        default: ""
      batch_host:
        description: First node of the job. Empty if not known yet.
        type: str
        default: ""
      seconds:
        description: Run time in seconds.
        type: float
        default: 0
      submitted_at:
        description: Time of submission, by the controller's clock.
        type: float
        default: 0
      started_at:
        description: Time when the job was first seen running, by that clock; 0 if it has not started.
        type: float
        default: 0
  reservation:
    description:
      - Also tests drained nodes and nodes in any reservation. No other job starts on them meanwhile.
      - A drained node is resumed in the reservation, and drained again with its drain reason as soon as the job has
        started.
    type: dict
    suboptions:
      name:
        description:
          - Name of an existing reservation, used unchanged. If empty, C(busbar-validation) is created for nodes that
            are out of service, for the duration of the jobs plus some minutes. It may overlap with other reservations.
        type: str
        default: ""
      fresh:
        description: Whether the caller has created no reservation yet. An existing one is then stale or belongs to
          another run.
        type: bool
        default: true
  queues:
    description: Combinations of C(partition), C(account) and C(qos) for the jobs.
    type: list
    elements: dict
    default: []
  user:
    description: User who submits and owns the jobs.
    type: str
    required: true
  home:
    description: Home directory of the user, for the jobs.
    type: path
    default: /nonexistent
  wait:
    description: Seconds to wait for nodes that are not idle yet, and for a job to start.
    type: int
    default: 60
  waited:
    description: Seconds of O(wait) that elapsed in earlier calls.
    type: float
    default: 0
  wait_for_jobs:
    description: Whether to wait for nodes with running jobs, too. Otherwise waits only for nodes that are not idle for
      other reasons.
    type: bool
    default: true
  share:
    description: Whether to test nodes beside other running jobs. Otherwise a test has its nodes exclusively.
    type: bool
    default: false
  time_limit:
    description: Time limit of a job in seconds.
    type: int
    default: 600
  left:
    description:
      - Seconds left for everything, including the wait for nodes and the time in the queue; none for no limit.
      - A job gets at most this time limit, and is cancelled when the time is over.
    type: float
  patience:
    description: Maximum duration of a call in seconds, without the response times of Slurm.
    type: float
    default: 10
  poll:
    description: Polling interval in seconds.
    type: float
    default: 0.5
attributes:
  check_mode:
    support: full
    description: Nothing is submitted.
  diff_mode:
    support: none
    description: Changes no file.
"""

EXAMPLES = r"""
- name: Submit a test on two nodes
  busbar.cluster.slurm_tests:
    user: bench
    tests:
      - name: cluster
        nodes: [gpu1, gpu2]
        script: "#!/bin/bash\nsrun hostname\n"
        output: /var/log/busbar-%j.out
  register: submitted

- name: Wait a minute for its end
  busbar.cluster.slurm_tests:
    state: followed
    user: bench
    jobs: "{{ submitted.tests }}"
    patience: 60
"""

RETURN = r"""
tests:
  description:
    - One entry per test, in order, with O(tests[].name), C(nodes), C(partners), C(left_out) (node to reason),
      C(held) (drained nodes that are tested, each with its drain reason), C(held_by) (user and time of these drains;
      a new drain does not keep them, since Slurm records the requesting user and the current time),
      C(job_id), C(state), C(reason), C(exit_code), C(batch_host) (node with the output), C(seconds),
      C(problem) (reason for a missing result; empty if the job ended by itself), C(over) (whether the test needs no
      more waiting), and C(submitted_at) and C(started_at).
    - For O(state=followed) and O(state=cancelled), one entry per job, without the values known at submission.
  returned: always
  type: list
  elements: dict
waits_for:
  description: Nodes that the module waits for, each with the reason. If there are any, nothing was submitted.
  returned: always
  type: dict
reserved:
  description: Reservation of the submitted jobs. Empty if they use none.
  returned: always
  type: str
unrestored:
  description: Nodes that were resumed for a test and could not be drained again, each with the remedy.
  returned: always
  type: dict
problems:
  description: Reasons why the reservation or a queue cannot be used, or why the reservation still exists.
  returned: always
  type: list
  elements: str
answered:
  description: Whether slurmctld answered at least one request.
  returned: always
  type: bool
node_reasons:
  description: Output of C(sinfo -R) at the end.
  returned: always
  type: list
  elements: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.job_runner import Runner

STATES = ["submitted", "followed", "cancelled", "released", "checked"]


def main() -> None:
    """Run the module."""
    test = {
        "name": {"type": "str", "required": True},
        "nodes": {"type": "list", "elements": "str", "required": True},
        "candidates": {"type": "list", "elements": "str", "default": []},
        "partners": {"type": "int", "default": 0},
        "minimum": {"type": "int", "default": 1},
        "script": {"type": "str", "required": True},
        "arguments": {"type": "list", "elements": "str", "default": []},
        "output": {"type": "str", "required": True},
    }
    job = {
        "name": {"type": "str", "required": True},
        "job_id": {"type": "str", "required": True},
        "nodes": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "default": ""},
        "batch_host": {"type": "str", "default": ""},
        "seconds": {"type": "float", "default": 0.0},
        "submitted_at": {"type": "float", "default": 0.0},
        "started_at": {"type": "float", "default": 0.0},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": STATES, "default": "submitted"},
            "tests": {"type": "list", "elements": "dict", "default": [], "options": test},
            "jobs": {"type": "list", "elements": "dict", "default": [], "options": job},
            "reservation": {
                "type": "dict",
                "options": {"name": {"type": "str", "default": ""}, "fresh": {"type": "bool", "default": True}},
            },
            "queues": {"type": "list", "elements": "dict", "default": []},
            "user": {"type": "str", "required": True},
            "home": {"type": "path", "default": "/nonexistent"},
            "wait": {"type": "int", "default": 60},
            "waited": {"type": "float", "default": 0.0},
            "wait_for_jobs": {"type": "bool", "default": True},
            "share": {"type": "bool", "default": False},
            "time_limit": {"type": "int", "default": 600},
            "left": {"type": "float"},
            "patience": {"type": "float", "default": 10.0},
            "poll": {"type": "float", "default": 0.5},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        nothing = {"tests": [], "waits_for": {}, "reserved": "", "unrestored": {}, "problems": []}
        module.exit_json(changed=False, answered=False, node_reasons=[], **nothing)
    runner = Runner(module)
    entries: list[dict[str, Any]] = []
    waits_for: dict[str, str] = {}
    problems: list[str] = []
    if module.params["state"] == "submitted":
        nodes, waits_for = runner.wait_for_nodes()
        entries = [] if waits_for else runner.submit_all(nodes)
    elif module.params["state"] == "followed":
        entries = runner.follow()
    elif module.params["state"] == "released":
        problems = [problem for problem in [runner.release()] if problem]
    elif module.params["state"] == "checked":
        unusable = runner.reservation.problem() if runner.reservation is not None else ""
        problems = [unusable] * bool(unusable) + runner.refused_queues()
    else:
        entries = [{**job, "problem": ""} for job in module.params["jobs"]]
        runner.cancel([entry["job_id"] for entry in entries])
        for entry in entries:
            runner.close(entry)
    code, out, _err = runner.ask("sinfo", "-R", "-h", "-o", "%n %E (%u, %H)")
    module.exit_json(
        changed=False,
        tests=entries,
        waits_for=waits_for,
        reserved=runner.reservation.name if runner.reservation is not None and runner.reservation.opened else "",
        unrestored=runner.unrestored,
        problems=problems,
        answered=runner.answered or code == 0,
        node_reasons=out.splitlines()[:1000] if code == 0 else [],
    )


if __name__ == "__main__":
    main()
