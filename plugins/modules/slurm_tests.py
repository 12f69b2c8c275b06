# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Module slurm_tests: run batch jobs on chosen nodes and wait for them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_tests
short_description: Run test jobs on chosen nodes and wait for them
description:
  - Waits until the nodes of each test are idle, submits all tests with C(sbatch), and waits for their end.
  - A node that is not idle by then, or on which no job can start, is left out and named, with the jobs that run there.
    A job that pends or runs too long is cancelled.
  - It never fails for what happens to a job. What happened is in the result, to be judged by the caller.
  - It must run where C(sbatch) works. The jobs are those of O(user), and of the environment of the task's user they get
    C(PATH) alone; what it asks Slurm, it asks as the user of the task. It changes no configuration.
version_added: "0.1.0"
author: The busbar contributors (@busbar)
options:
  tests:
    description: The tests. All jobs are submitted at once.
    type: list
    elements: dict
    required: true
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
- name: Run a test on two nodes
  busbar.cluster.slurm_tests:
    user: bench
    tests:
      - name: cluster
        nodes: [gpu1, gpu2]
        script: "#!/bin/bash\nsrun hostname\n"
        output: /var/log/busbar-%j.out
  register: result
"""

RETURN = r"""
tests:
  description:
    - One entry per test, in order, with O(tests[].name), C(nodes), C(partners), C(left_out) (node to reason),
      C(job_id), C(state), C(reason), C(exit_code), C(batch_host) (where the output lies), C(seconds),
      and C(problem) (why there is no result; empty when the job ended by itself).
  returned: always
  type: list
  elements: dict
node_reasons:
  description: What C(sinfo -R) says at the end.
  returned: always
  type: list
  elements: str
"""

import math
import os
import pwd
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.jobs import (
    choose_nodes,
    is_over,
    occupied_words,
    parse_job,
    parse_nodes,
    parse_queue,
    sbatch_arguments,
)

_ANSWER_S = 20
# A job of the test before may just be ending.
_JOBS_END_S = 3
_JOBS_RUN = ("not idle: allocated", "not idle: mixed")


class Runner:
    """Submits tests and follows them."""

    def __init__(self, module: AnsibleModule) -> None:
        """Take the module's parameters."""
        self.module = module
        self.params: dict[str, Any] = module.params
        self.as_user = self.become(module.params["user"], module.params["home"])

    @staticmethod
    def become(user: str, home: str) -> list[str]:
        """Return the words before a command that a user shall run; none when there is no such user."""
        try:
            account = pwd.getpwnam(user)
        except KeyError:
            return []
        kept = {name: os.environ[name] for name in ("PATH", "SLURM_CONF") if name in os.environ}
        told = {"HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "LANG": "C.UTF-8"}
        # sbatch hands its environment on to the job: nothing of root's may be in it.
        environment = ["env", "-i", *(f"{name}={value}" for name, value in {**kept, **told}.items())]
        if account.pw_uid == os.geteuid():
            return environment
        identity = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]
        return ["setpriv", *identity, *environment]

    def ask(self, *command: str, data: str | None = None) -> tuple[int, str, str]:
        """Run a command of Slurm; returns exit code, output and error. A program that is not there gives 127."""
        limit = ["timeout", str(_ANSWER_S), *command]
        code, out, err = self.module.run_command(limit, data=data, binary_data=True, handle_exceptions=True)
        return code, out, err.strip()

    def wait_for_nodes(self) -> dict[str, tuple[str, str]]:
        """Return the states of all nodes once those of the tests are idle, or when the time is over."""
        wanted = sorted({node for test in self.params["tests"] for node in test["nodes"]})
        begun = time.monotonic()
        until = begun + self.params["wait"]
        while True:
            code, out, _err = self.ask("sinfo", "-h", "-N", "-a", "-o", "%N|%T|%E")
            nodes = parse_nodes(out) if code == 0 else {}
            missing = choose_nodes(wanted, [], 0, nodes, share=self.params["share"])[2]
            given_up = ["drain"]
            if not self.params["wait_for_jobs"] and time.monotonic() >= begun + _JOBS_END_S:
                given_up += _JOBS_RUN
            hopeless = all(word.startswith(tuple(given_up)) for word in missing.values())
            if hopeless or time.monotonic() >= until:
                return nodes
            time.sleep(max(1.0, self.params["poll"]))

    def who_is_on(self, node: str) -> str:
        """Return whose jobs keep a node from being idle, in words; an empty text when none do."""
        code, out, _err = self.ask("squeue", "-h", "-a", "-w", node, "-t", "R,CG,S,CF,SI,ST", "-o", "%i|%u")
        return occupied_words(out) if code == 0 else ""

    def submit(self, test: dict[str, Any], nodes: dict[str, tuple[str, str]]) -> dict[str, Any]:
        """Submit one test; returns its entry of the result."""
        share = self.params["share"]
        usable, partners, left_out = choose_nodes(
            test["nodes"], test["candidates"], test["partners"], nodes, share=share
        )
        jobs = {node: self.who_is_on(node) for node, reason in left_out.items() if reason.startswith("not idle")}
        # A node that is completing has no job that goes on.
        busy = {node: words for node, words in jobs.items() if words and left_out[node].startswith(_JOBS_RUN)}
        left_out = {node: f"{why}, {jobs[node]}" if jobs.get(node) else why for node, why in left_out.items()}
        entry = {
            "name": test["name"],
            "nodes": usable,
            "partners": partners,
            "left_out": left_out,
            "busy": busy,
            "job_id": "",
            "state": "",
            "reason": "",
            "exit_code": "",
            "batch_host": "",
            "seconds": 0.0,
            "problem": "",
        }
        if not self.as_user:
            entry["problem"] = f"there is no user {self.params['user']} on the controller: playbooks/slurm.yml makes it"
        elif not nodes:
            entry["problem"] = "slurmctld does not answer"
        elif len(usable) + len(partners) < test["minimum"] or not usable:
            why = "".join(f"; {node}: {reason}" for node, reason in sorted(left_out.items())[:8])
            if len(partners) < test["partners"]:
                why += f"; {len(partners)} of {test['partners']} partner(s) idle"
            entry["problem"] = f"{len(usable) + len(partners)} usable node(s), {test['minimum']} needed{why}"
        else:
            minutes = math.ceil((self.params["time_limit"] + 59) / 60)
            arguments = sbatch_arguments(test, usable + partners, minutes, share=share)
            code, out, err = self.ask(*self.as_user, "sbatch", *arguments, data=test["script"])
            if code == 0:
                entry["job_id"] = out.strip().split(";")[0]
            else:
                entry["problem"] = f"sbatch: {err or code}"
        return entry

    def follow(self, entries: list[dict[str, Any]]) -> None:
        """Wait for all jobs; cancel what takes too long."""
        begun = time.monotonic()
        started: dict[str, float] = {}
        open_jobs = {entry["job_id"]: entry for entry in entries if entry["job_id"]}
        while open_jobs:
            _code, out, _err = self.ask(
                "squeue", "-h", "-a", "-t", "all", "-j", ",".join(open_jobs), "-o", "%i|%T|%B|%r"
            )
            now = time.monotonic()
            queue = parse_queue(out)
            for job, entry in list(open_jobs.items()):
                entry.update(queue.get(job, {}))
                state = entry["state"]
                if state not in {"", "PENDING"}:
                    entry["seconds"] = round(now - started.setdefault(job, now), 1)
                if is_over(state) or not self.in_time(entry, now - begun, started.get(job), now):
                    del open_jobs[job]
            if open_jobs:
                time.sleep(self.params["poll"])

    def in_time(self, entry: dict[str, Any], waited: float, started: float | None, now: float) -> bool:
        """Return whether a job may go on; if not, cancel it and say why."""
        if started is None and waited > self.params["wait"]:
            why = entry["reason"] or "no answer of slurmctld"
            taken = {node: jobs for node in entry["nodes"][:8] if (jobs := self.who_is_on(node))}
            entry["busy"] |= taken
            why += f" ({'; '.join(f'{node}: {jobs}' for node, jobs in taken.items())})" if taken else ""
            entry["problem"] = f"did not start within {self.params['wait']} s: {why}"
        elif started is not None and now - started > self.params["time_limit"]:
            entry["problem"] = f"did not end within {self.params['time_limit']} s and was cancelled"
        else:
            return True
        self.ask("scancel", entry["job_id"])
        return False

    def close(self, entry: dict[str, Any]) -> None:
        """Ask once more how a job ended and which node has its output."""
        if not entry["job_id"]:
            return
        code, out, _err = self.ask("scontrol", "-o", "show", "job", entry["job_id"])
        job = parse_job(out) if code == 0 else {}
        entry["exit_code"] = job.get("ExitCode", "")
        host = job.get("BatchHost", "")
        entry["batch_host"] = host if host and host != "(null)" else entry["batch_host"]
        if not entry["problem"]:
            entry["state"] = job.get("JobState", entry["state"])
            if entry["state"] in {"NODE_FAIL", "BOOT_FAIL", "CANCELLED", "PREEMPTED", "TIMEOUT", "DEADLINE"}:
                entry["problem"] = f"the job ended as {entry['state']} ({entry['reason']})"


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
    module = AnsibleModule(
        argument_spec={
            "tests": {"type": "list", "elements": "dict", "required": True, "options": test},
            "user": {"type": "str", "required": True},
            "home": {"type": "path", "default": "/nonexistent"},
            "wait": {"type": "int", "default": 60},
            "wait_for_jobs": {"type": "bool", "default": True},
            "share": {"type": "bool", "default": False},
            "time_limit": {"type": "int", "default": 600},
            "poll": {"type": "float", "default": 0.5},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, tests=[], node_reasons=[])
    runner = Runner(module)
    nodes = runner.wait_for_nodes()
    entries = [runner.submit(item, nodes) for item in module.params["tests"]]
    runner.follow(entries)
    for entry in entries:
        runner.close(entry)
    _code, out, _err = runner.ask("sinfo", "-R", "-h", "-o", "%n %E (%u, %H)")
    module.exit_json(changed=False, tests=entries, node_reasons=out.splitlines()[:1000])


if __name__ == "__main__":
    main()
