# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Module that submits test jobs to chosen nodes, monitors them and cancels late ones."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_tests
author: busbar contributors (!UNKNOWN)
short_description: Submit, monitor and cancel test jobs on selected nodes
description:
  - Waits until the nodes of each test are idle, and submits all tests with C(sbatch). A node that is not idle by then,
    or on which no job can start, is excluded and returned with its running jobs.
  - Monitors jobs until they end. Cancels a job that pends or runs too long.
  - Returns at the latest after O(patience). The caller records the jobs and calls the module again.
  - Does not fail if a job fails.
  - Must run where C(sbatch) works. The jobs inherit only C(PATH) from the task's environment. The module queries Slurm
    as the task's user. Submits no jobs in check mode.
extends_documentation_fragment: busbar.cluster.attributes
options:
  state:
    description:
      - V(submitted) waits for the nodes of O(tests) and submits their jobs. While it waits, it submits nothing.
      - V(followed) waits until O(jobs) end, V(cancelled) cancels them, V(released) deletes the O(reservation) that was
        created for the tests.
      - V(checked) only checks that O(user) can submit to O(queues) and that O(reservation) can be used.
    type: str
    choices: [submitted, followed, cancelled, released, checked]
    default: submitted
  tests:
    description: The tests.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the test., type: str, required: true}
      nodes: {description: Nodes of the job., type: list, elements: str, required: true}
      candidates: {description: Nodes that may serve as partners., type: list, elements: str, default: []}
      partners: {description: Number of partners., type: int, default: 0}
      minimum: {description: "Minimum number of nodes, including partners.", type: int, default: 1}
      script: {description: Job script., type: str, required: true}
      arguments: {description: Arguments of C(sbatch)., type: list, elements: str, default: []}
      output: {description: File on the first node; patterns of C(sbatch) are allowed., type: str, required: true}
  jobs:
    description: The submitted jobs, as in their latest entries of RV(tests).
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of the test., type: str, required: true}
      job_id: {description: ID of the job., type: str, required: true}
      nodes: {description: Nodes of the job., type: list, elements: str, default: []}
      state: {description: State of the job., type: str, default: ""}
      batch_host: {description: Node with the output., type: str, default: ""}
      seconds: {description: Duration of the job., type: float, default: 0}
      submitted_at: {description: "Time of the submission, seconds since 1970.", type: float, default: 0}
      started_at: {description: "Time of the start, seconds since 1970.", type: float, default: 0}
  reservation:
    description:
      - Also tests drained nodes and nodes in any reservation. A drained node is resumed in the reservation, and drained
        again with its drain reason when the job has started.
    type: dict
    suboptions:
      name:
        description: Existing reservation; if empty, C(busbar-validation) is created for nodes that are out of service.
        type: str
        default: ""
      fresh:
        description: Whether an existing reservation is stale or another run's, because the caller has created none.
        type: bool
        default: true
  queues:
    description: Combinations of C(partition), C(account) and C(qos) for the jobs.
    type: list
    elements: dict
    default: []
  user: {description: User who submits and owns the jobs., type: str, required: true}
  home: {description: Home directory of the user., type: path, default: /nonexistent}
  wait: {description: Seconds to wait for idle nodes and for a job to start., type: int, default: 60}
  waited: {description: Seconds of O(wait) that elapsed in earlier calls., type: float, default: 0}
  wait_for_jobs: {description: Whether to wait for nodes with running jobs., type: bool, default: true}
  share: {description: Whether to test nodes that also run other jobs., type: bool, default: false}
  time_limit: {description: Time limit of a job in seconds., type: int, default: 600}
  left: {description: "Seconds left for all tests, after which jobs are cancelled. Default: no limit.", type: float}
  patience: {description: "Maximum seconds of a call, without Slurm's response times.", type: float, default: 10}
  poll: {description: Seconds between two queries of the jobs' state., type: float, default: 0.5}
"""

EXAMPLES = r"""
- name: Check that the user can submit jobs
  busbar.cluster.slurm_tests: {state: checked, user: bench, queues: [{partition: gpu}]}
"""

RETURN = r"""
tests:
  description:
    - One entry per test, in order, with C(name), C(nodes), C(partners), C(left_out) (node to reason), C(held) (drained
      nodes that are tested, each with its drain reason), C(held_by) (user and time of these drains), C(job_id),
      C(state), C(reason), C(exit_code), C(batch_host) (node with the output), C(seconds), C(problem) (reason for a
      missing result), C(over) (whether the test needs no more waiting), C(submitted_at) and C(started_at).
    - For V(followed) and V(cancelled), one entry per job, without the values known at submission.
  returned: always
  type: list
  elements: dict
waits_for: {description: "Nodes that the module waits for, each with the reason.", returned: always, type: dict}
reserved: {description: Reservation of the submitted jobs., returned: always, type: str}
unrestored: {description: "Nodes that could not be drained again, with the remedy.", returned: always, type: dict}
problems: {description: Reasons why reservation or queue cannot be used., returned: always, type: list, elements: str}
answered: {description: Whether slurmctld answered a request., returned: always, type: bool}
node_reasons: {description: Output of C(sinfo -R)., returned: always, type: list, elements: str}
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
