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
    type: str
    choices: [submitted, followed, cancelled]
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

import math
import os
import pwd
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.jobs import (
    CUT_BY_LIMIT,
    choose_nodes,
    is_over,
    occupied_words,
    parse_job,
    parse_nodes,
    parse_queue,
    sbatch_arguments,
)

_ANSWER_S = 20
_TIMED_OUT = 124
# A job of the test before may just be ending.
_JOBS_END_S = 3
_JOBS_RUN = ("not idle: allocated", "not idle: mixed")


class Runner:
    """Submits tests, follows their jobs and ends them."""

    def __init__(self, module: AnsibleModule) -> None:
        """Take the module's parameters."""
        self.module = module
        self.params: dict[str, Any] = module.params
        self.as_user = self.become(module.params["user"], module.params["home"])
        self.begun = time.monotonic()
        self.answered = False
        self.silent = False

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
        """Run a command of Slurm; returns exit code, output and error. A program that is not there gives 127.

        Once a daemon has left a question open for so long, no other is asked: there may be one for each of many jobs.
        """
        if self.silent:
            return _TIMED_OUT, "", "no answer"
        limit = ["timeout", str(_ANSWER_S), *command]
        code, out, err = self.module.run_command(limit, data=data, binary_data=True, handle_exceptions=True)
        self.silent = code == _TIMED_OUT
        return code, out, err.strip()

    def wait_for_nodes(self) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
        """Return the states of all nodes, and why those of the tests are still waited for.

        Nobody is waited for any more when they are idle, when waiting is hopeless, or when the time is over. Else the
        caller may ask again: the wait is no longer than its patience.
        """
        wanted = sorted({node for test in self.params["tests"] for node in test["nodes"]})
        begun = time.monotonic()
        while True:
            code, out, _err = self.ask("sinfo", "-h", "-N", "-a", "-o", "%N|%T|%E")
            nodes = parse_nodes(out) if code == 0 else {}
            missing = choose_nodes(wanted, [], 0, nodes, share=self.params["share"])[2]
            here = time.monotonic() - begun
            waited = self.params["waited"] + here
            given_up = ["drain"]
            if not self.params["wait_for_jobs"] and waited >= _JOBS_END_S:
                given_up += _JOBS_RUN
            hopeless = all(word.startswith(tuple(given_up)) for word in missing.values())
            if hopeless or waited >= self.params["wait"] or self.left() == 0:
                return nodes, {}
            if here >= self.params["patience"]:
                return nodes, missing
            time.sleep(max(1.0, self.params["poll"]))

    def left(self) -> float | None:
        """Return how many seconds are left for everything, None for no limit."""
        left = self.params["left"]
        return None if left is None else max(0.0, left - (time.monotonic() - self.begun))

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
            "submitted_at": time.monotonic(),
            "started_at": 0.0,
            "problem": "",
        }
        if not self.as_user:
            entry["problem"] = f"there is no user {self.params['user']} on the controller: playbooks/slurm.yml makes it"
        elif self.left() == 0:
            entry["problem"] = f"{CUT_BY_LIMIT}, and the job had not begun"
        elif not nodes:
            entry["problem"] = "slurmctld does not answer"
        elif len(usable) + len(partners) < test["minimum"] or not usable:
            why = "".join(f"; {node}: {reason}" for node, reason in sorted(left_out.items())[:8])
            if len(partners) < test["partners"]:
                why += f"; {len(partners)} of {test['partners']} partner(s) idle"
            entry["problem"] = f"{len(usable) + len(partners)} usable node(s), {test['minimum']} needed{why}"
        else:
            # Slurm counts in minutes; a job that runs longer than it should is cancelled here before.
            left, longest = self.left(), self.params["time_limit"] + 59
            minutes = math.ceil(min(longest, longest if left is None else left) / 60)
            arguments = sbatch_arguments(test, usable + partners, minutes, share=share)
            code, out, err = self.ask(*self.as_user, "sbatch", *arguments, data=test["script"])
            if code == 0:
                entry["job_id"] = out.strip().split(";")[0]
            else:
                entry["problem"] = f"sbatch: {err or code}"
        entry["over"] = not entry["job_id"]
        return entry

    def follow(self) -> list[dict[str, Any]]:
        """Return what became of the jobs by the end of all or of the caller's patience; who is too late is ended."""
        entries = [{**job, "reason": "", "busy": {}, "problem": "", "over": False} for job in self.params["jobs"]]
        open_jobs = {entry["job_id"]: entry for entry in entries}
        begun = time.monotonic()
        while open_jobs:
            late = self.look(open_jobs)
            # A job that nobody could end is not over: that is for the caller to tell.
            for job, why in late.items() if self.cancel(list(late)) else ():
                open_jobs[job].update(problem=why, over=True)
            open_jobs = {job: entry for job, entry in open_jobs.items() if not entry["over"]}
            if time.monotonic() - begun >= self.params["patience"]:
                break
            if open_jobs:
                time.sleep(self.params["poll"])
        for entry in entries:
            if entry["over"]:
                self.close(entry)
        return entries

    def look(self, jobs: dict[str, dict[str, Any]]) -> dict[str, str]:
        """Enter how jobs are, by their numbers; returns which may not go on, each with the reason."""
        code, out, err = self.ask("squeue", "-h", "-a", "-t", "all", "-j", ",".join(jobs), "-o", "%i|%T|%B|%r")
        # Of a job that ended long ago it says that there is none such, and is alive all the same.
        heard = code == 0 or "nvalid job id" in err
        self.answered = self.answered or heard
        now, queue, late = time.monotonic(), parse_queue(out), {}
        for job, entry in jobs.items():
            entry.update(queue.get(job, {}))
            if entry["state"] not in {"", "PENDING"}:
                entry["started_at"] = entry["started_at"] or now
                entry["seconds"] = round(now - entry["started_at"], 1)
            entry["over"] = is_over(entry["state"])
            if not entry["over"] and (why := self.too_late(entry, now, heard=heard)):
                late[job] = why
        return late

    def too_late(self, entry: dict[str, Any], now: float, *, heard: bool) -> str:
        """Return why a job may not go on, an empty text when it may; of what was not heard of nothing is known."""
        waited = now - entry["submitted_at"]
        if self.left() == 0:
            began = "" if entry["started_at"] else f", and the job had not begun{_because(entry['reason'])}"
            return f"{CUT_BY_LIMIT}{began}"
        if heard and not entry["started_at"] and waited > self.params["wait"]:
            why = entry["reason"] or "no answer of slurmctld"
            taken = {node: jobs for node in entry["nodes"][:8] if (jobs := self.who_is_on(node))}
            entry["busy"] |= taken
            why += f" ({'; '.join(f'{node}: {jobs}' for node, jobs in taken.items())})" if taken else ""
            return f"did not start within {self.params['wait']} s: {why}"
        if entry["started_at"] and now - entry["started_at"] > self.params["time_limit"]:
            return f"did not end within {self.params['time_limit']} s and was cancelled"
        return ""

    def cancel(self, jobs: list[str]) -> bool:
        """End jobs; returns whether that was possible."""
        if not jobs:
            return False
        code, _out, _err = self.ask("scancel", *jobs)
        self.answered = self.answered or code == 0
        return code == 0

    def close(self, entry: dict[str, Any]) -> None:
        """Ask once more how a job ended and which node has its output."""
        code, out, _err = self.ask("scontrol", "-o", "show", "job", entry["job_id"])
        job = parse_job(out) if code == 0 else {}
        entry["exit_code"] = job.get("ExitCode", "")
        host = job.get("BatchHost", "")
        entry["batch_host"] = host if host and host != "(null)" else entry["batch_host"]
        if not entry["problem"]:
            entry["state"] = job.get("JobState", entry["state"])
            if entry["state"] in {"NODE_FAIL", "BOOT_FAIL", "CANCELLED", "PREEMPTED", "TIMEOUT", "DEADLINE"}:
                entry["problem"] = f"the job ended as {entry['state']} ({entry.get('reason') or 'None'})"


def _because(reason: str) -> str:
    return f" ({reason})" if reason and reason != "None" else ""


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
            "state": {"type": "str", "choices": ["submitted", "followed", "cancelled"], "default": "submitted"},
            "tests": {"type": "list", "elements": "dict", "default": [], "options": test},
            "jobs": {"type": "list", "elements": "dict", "default": [], "options": job},
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
        module.exit_json(changed=False, tests=[], waits_for={}, answered=False, node_reasons=[])
    runner = Runner(module)
    entries: list[dict[str, Any]] = []
    waits_for: dict[str, str] = {}
    if module.params["state"] == "submitted":
        nodes, waits_for = runner.wait_for_nodes()
        entries = [] if waits_for else [runner.submit(item, nodes) for item in module.params["tests"]]
    elif module.params["state"] == "followed":
        entries = runner.follow()
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
        answered=runner.answered or code == 0,
        node_reasons=out.splitlines()[:1000] if code == 0 else [],
    )


if __name__ == "__main__":
    main()
