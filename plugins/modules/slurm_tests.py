# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Module slurm_tests: submit test jobs on chosen nodes, follow and end them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_tests
short_description: Submit test jobs on chosen nodes, follow and end them
description:
  - Waits until the nodes of each test are idle, and submits all tests with C(sbatch). A node that is not idle by then,
    or on which no job can start, is left out and named, with the jobs that run there.
  - Follows jobs until they end. A job that pends or runs too long is cancelled.
  - It comes back after O(patience), whatever the state of things, so that the caller always knows which jobs there are,
    and calls it again.
  - It never fails for what happens to a job. What happened is in the result, to be judged by the caller.
  - It must run where C(sbatch) works. The jobs are those of O(user), and of the environment of the task's user they get
    C(PATH) alone; what it asks Slurm, it asks as the user of the task. It changes no configuration.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  state:
    description:
      - V(submitted) waits for the nodes of O(tests) and submits their jobs. While nodes are waited for it submits
        nothing, and RV(waits_for) says why.
      - V(followed) waits for the end of O(jobs).
      - V(cancelled) ends O(jobs).
      - V(released) deletes the O(reservation) that was made for the tests.
      - V(checked) only looks whether O(user) can submit to O(queues), and whether O(reservation) can be used.
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
        description: The nodes to be tested. A node that can take no job is left out.
        type: list
        elements: str
        required: true
      candidates:
        description: Nodes that may help as partners. Only idle ones are taken.
        type: list
        elements: str
        default: []
      partners:
        description: How many partners to take.
        type: int
        default: 0
      minimum:
        description: Fewest nodes, partners included, with which the test makes sense.
        type: int
        default: 1
      script:
        description: The batch script.
        type: str
        required: true
      arguments:
        description: More arguments of C(sbatch).
        type: list
        elements: str
        default: []
      output:
        description: Where the job writes its output on its first node; patterns of C(sbatch) are allowed.
        type: str
        required: true
  jobs:
    description: Jobs that were submitted, each as the entry of its test in RV(tests) was last.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the test.
        type: str
        required: true
      job_id:
        description: Number of the job.
        type: str
        required: true
      nodes:
        description: Its nodes.
        type: list
        elements: str
        default: []
      state:
        description: Its state; empty when it is not known yet.
        type: str
        default: ""
      batch_host:
        description: Its first node; empty when it is not known yet.
        type: str
        default: ""
      seconds:
        description: How long it has run.
        type: float
        default: 0
      submitted_at:
        description: When it was submitted, on the controller's own clock.
        type: float
        default: 0
      started_at:
        description: When it was first seen to run, on that clock; 0 for not yet.
        type: float
        default: 0
  reservation:
    description:
      - Tests nodes that are drained or in anybody's reservation, too. No other job starts on them meanwhile.
      - A drained node is resumed in it, and drained again with its own reason as soon as the job has started.
    type: dict
    suboptions:
      name:
        description:
          - One that is there and is used as it is. Empty for C(busbar-validation), which is made for nodes that are out
            of service, for the time that the jobs may take and some minutes, and which overlaps with those of others.
        type: str
        default: ""
      fresh:
        description: Whether the caller has made none yet; what is there then is a left-over, or somebody else's.
        type: bool
        default: true
  queues:
    description: Combinations of C(partition), C(account) and C(qos) that jobs are to be submitted with.
    type: list
    elements: dict
    default: []
  user:
    description: Who submits the jobs, and whose they are.
    type: str
    required: true
  home:
    description: Home directory that the jobs are told.
    type: path
    default: /nonexistent
  wait:
    description: How many seconds to wait for nodes that are not idle yet, and for a job to start.
    type: int
    default: 60
  waited:
    description: How many of these seconds have gone by in earlier calls.
    type: float
    default: 0
  wait_for_jobs:
    description: Wait for nodes on which jobs run, too; else only for those that are not idle for other reasons.
    type: bool
    default: true
  share:
    description: Test nodes on which other jobs run, beside them. Else a test has its nodes for itself.
    type: bool
    default: false
  time_limit:
    description: How many seconds a job may run.
    type: int
    default: 600
  left:
    description:
      - How many seconds are left for everything, the wait for nodes and in the queue included; none for no limit.
      - A job is submitted with no more than that, and is cancelled when it is over.
    type: float
  patience:
    description: How many seconds a call may take, apart from what Slurm takes to answer.
    type: float
    default: 10
  poll:
    description: Seconds between two questions to the controller.
    type: float
    default: 0.5
attributes:
  check_mode:
    support: full
    description: Nothing is submitted.
  diff_mode:
    support: none
    description: It changes no file.
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
      C(held) (drained nodes that are tested, each with the reason of the drain), C(held_by) (who drained these, and
      when; not drained again with that, since Slurm enters who asks and the time of then),
      C(job_id), C(state), C(reason), C(exit_code), C(batch_host) (where the output lies), C(seconds),
      C(problem) (why there is no result; empty when the job ended by itself), C(over) (whether there is nothing more
      to wait for), and C(submitted_at) and C(started_at).
    - For O(state=followed) and O(state=cancelled) one entry per job, without what was known when it was submitted.
  returned: always
  type: list
  elements: dict
waits_for:
  description: Nodes that are waited for, each with the reason; nothing was submitted then.
  returned: always
  type: dict
reserved:
  description: Name of the reservation that the jobs were submitted into; empty for none.
  returned: always
  type: str
unrestored:
  description: Nodes that were resumed for a test and could not be drained again, each with what is to be done.
  returned: always
  type: dict
problems:
  description: Why the reservation or a queue cannot be used, or why the reservation is still there.
  returned: always
  type: list
  elements: str
answered:
  description: Whether slurmctld answered any question.
  returned: always
  type: bool
node_reasons:
  description: What C(sinfo -R) says at the end.
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
