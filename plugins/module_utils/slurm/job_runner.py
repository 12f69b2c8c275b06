# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Submit test jobs to selected nodes, monitor and cancel them, for the slurm_tests module."""

from __future__ import annotations

import math
import os
import pwd
import re
import time
from typing import TYPE_CHECKING, Any

from .busbar_drain_reasons import NEW_REASON
from .nodes_and_jobs import (
    CUT,
    CUT_BY_LIMIT,
    NOT_RESERVED,
    PREEMPTED,
    Reserved,
    choose_nodes,
    drain_authors,
    drained_nodes,
    is_over,
    occupied_words,
    out_of_service,
    parse_job,
    parse_nodes,
    parse_queue,
    sbatch_arguments,
)
from .reservation import NodeReservation

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

__all__ = ["Runner"]

_ANSWER_S = 20
_TIMED_OUT = 124
_MINUTE_S = 60
# The job of the previous test may still be completing.
_JOBS_END_S = 3
_QUICK_S, _QUICK_POLL_S = 5, 0.2
# Slurm's errors if a partition, account or QOS does not exist or the user may not use it (slurm_errno.c).
_REFUSED_QUEUE = re.compile(r"nvalid (partition|account|qos)|account/partition|not permitted to use", re.IGNORECASE)
# Each node costs one request to slurmctld.
_MOST_EXPLAINED = 8
_JOBS_RUN = ("not idle: allocated", "not idle: mixed")


class Runner:
    """Submits, monitors and cancels the jobs of tests."""

    def __init__(self, module: AnsibleModule) -> None:
        """Read the parameters of the module."""
        self.module = module
        self.params: dict[str, Any] = module.params
        self.as_user = self.become(module.params["user"], module.params["home"])
        self.begun = time.monotonic()
        self.answered = False
        self.silent = False
        # Nodes that were resumed for a test and could not be drained again, with the remedy for each.
        self.unrestored: dict[str, str] = {}
        given = module.params.get("reservation")
        self.reservation: NodeReservation | None = None
        if given is not None:
            self.reservation = NodeReservation(
                self.ask, given["name"], module.params["user"], fresh=given.get("fresh", True)
            )
        self._reserved: Reserved | None = None

    @staticmethod
    def become(user: str, home: str) -> list[str]:
        """Return the command prefix that runs a command as a user; empty if the user does not exist."""
        try:
            account = pwd.getpwnam(user)
        except KeyError:
            return []
        kept = {name: os.environ[name] for name in ("PATH", "SLURM_CONF") if name in os.environ}
        login = {"HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "LANG": "C.UTF-8"}
        # sbatch passes its environment to the job, so it must not contain root's.
        environment = ["env", "-i", *(f"{name}={value}" for name, value in {**kept, **login}.items())]
        if account.pw_uid == os.geteuid():
            return environment
        identity = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]
        return ["setpriv", *identity, *environment]

    def ask(self, *command: str, data: str | None = None) -> tuple[int, str, str]:
        """Run a Slurm command; return exit code (127 if the program is missing), output and error.

        After one timeout all later calls fail immediately; otherwise each of many jobs would wait for the timeout.
        """
        if self.silent:
            return _TIMED_OUT, "", "no answer"
        limit = ["timeout", str(_ANSWER_S), *command]
        code, out, err = self.module.run_command(limit, data=data, binary_data=True, handle_exceptions=True)
        self.silent = code == _TIMED_OUT
        return code, out, err.strip()

    def wait_for_nodes(self) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
        """Return the states of all nodes, and why nodes of the tests are not available yet.

        The wait ends when the nodes are idle, when they cannot become idle, or at the timeout, but at the latest after
        `patience` seconds; then the caller may call again.
        """
        wanted = sorted({node for test in self.params["tests"] for node in test["nodes"]})
        begun = time.monotonic()
        while True:
            code, out, _err = self.ask("sinfo", "-h", "-N", "-a", "-o", "%N|%T|%E")
            nodes = parse_nodes(out) if code == 0 else {}
            missing = choose_nodes(wanted, [], 0, nodes, share=self.params["share"], reserved=self.reserved)[2]
            missing = missing if nodes else dict.fromkeys(wanted, "slurmctld does not answer")
            here = time.monotonic() - begun
            waited = self.params["waited"] + here
            # With busbar's reservation, the job of the previous test may still be completing on a draining node.
            given_up = ["drain"] if self.reservation is None else []
            if not self.params["wait_for_jobs"] and waited >= _JOBS_END_S:
                given_up += ("drain", *_JOBS_RUN)
            hopeless = all(word.startswith(tuple(given_up)) for word in missing.values())
            if hopeless or waited >= self.params["wait"] or self.left() == 0:
                return nodes, {}
            if here >= self.params["patience"]:
                return nodes, missing
            time.sleep(self.pause(here, longest=max(1.0, self.params["poll"])))

    def pause(self, waited: float, longest: float) -> float:
        """Return the seconds until the next poll; the first polls are frequent, because small tests end quickly."""
        return min(_QUICK_POLL_S, longest) if waited < _QUICK_S else longest

    def left(self) -> float | None:
        """Return the seconds left for all tests, or None without a limit."""
        left = self.params["left"]
        return None if left is None else max(0.0, left - (time.monotonic() - self.begun))

    def describe_jobs(self, node: str) -> str:
        """Describe the jobs that keep a node from being idle, or return ''."""
        code, out, _err = self.ask("squeue", "-h", "-a", "-w", node, "-t", "R,CG,S,CF,SI,ST", "-o", "%i|%u")
        return occupied_words(out) if code == 0 else ""

    @property
    def reserved(self) -> Reserved:
        """The nodes in the tests' reservation."""
        if self.reservation is None:
            return NOT_RESERVED
        if self._reserved is None:
            self._reserved = Reserved(outside=True, members=self.reservation.members())
        return self._reserved

    def choose(
        self, test: dict[str, Any], nodes: dict[str, tuple[str, str]]
    ) -> tuple[list[str], list[str], dict[str, str]]:
        """Return the nodes of a test, its partners, and the excluded nodes with the reason."""
        share, reserved, helping = self.params["share"], self.reserved, test["candidates"]
        if self.reservation is not None and self.params["reservation"]["name"]:
            # The site's reservation is not extended.
            helping = [node for node in helping if node in reserved.members]
        return choose_nodes(test["nodes"], helping, test["partners"], nodes, share=share, reserved=reserved)

    def submit_all(self, nodes: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
        """Submit all tests, in a reservation if nodes are out of service; return the result entries."""
        tests = self.params["tests"]
        chosen = [self.choose(test, nodes)[:2] for test in tests]
        members = sorted({node for pair in chosen for some in pair for node in some})
        place = self.reservation
        needed = place is not None and bool(
            self.params["reservation"]["name"] or self.reserved.members or out_of_service(members, nodes)
        )
        if place is None or not needed or not self.as_user or not members:
            return [self.submit(test, nodes) for test in tests]
        held = drained_nodes(members, nodes)
        held |= dict.fromkeys((node for node in place.new_nodes(members) if node not in held), NEW_REASON)
        problem = place.open(members, self.params["wait"] + self.params["time_limit"] + _MINUTE_S)
        if problem:
            return [self.submit(test, nodes, problem=problem) for test in tests]
        authors = self.drain_authors(held)
        try:
            problem = place.reserve_new_nodes(held) or place.resume(held)
            entries = [self.submit(test, nodes, problem=problem, reservation=place.name) for test in tests]
            if held:
                self.wait_for_start([entry["job_id"] for entry in entries if entry["job_id"]])
        finally:
            # Drain the nodes again even if slurmctld timed out earlier.
            self.silent = False
            self.unrestored = place.drain(held)
            place.release_new_nodes(held, self.unrestored)
        for entry in entries:
            entry["held"] = {node: held[node] for node in entry["nodes"] if node in held}
            entry["held_by"] = {node: authors[node] for node in entry["held"] if node in authors}
        return entries

    def drain_authors(self, held: dict[str, str]) -> dict[str, str]:
        """Return the user and time of each drain, because Slurm replaces them when a node is drained again."""
        if not held:
            return {}
        code, out, _err = self.ask("sinfo", "-h", "-N", "-a", "-n", ",".join(sorted(held)), "-o", "%N|%u|%H")
        return drain_authors(out) if code == 0 else {}

    def wait_for_start(self, jobs: list[str]) -> None:
        """Wait until the jobs have started or ended, for at most the `wait` timeout."""
        until = time.monotonic() + self.params["wait"]
        while jobs and time.monotonic() < until and self.left() != 0:
            code, out, _err = self.ask("squeue", "-h", "-a", "-t", "all", "-j", ",".join(jobs), "-o", "%i|%T|%B|%r")
            queue = parse_queue(out)
            if code == 0 and all(queue.get(job, {}).get("state") not in {None, "PENDING"} for job in jobs):
                return
            time.sleep(self.params["poll"])

    def submit(
        self, test: dict[str, Any], nodes: dict[str, tuple[str, str]], *, problem: str = "", reservation: str = ""
    ) -> dict[str, Any]:
        """Submit one test and return its result entry.

        Args:
            test: entry of the parameter `tests`.
            nodes: states of all nodes.
            problem: reason not to submit the test; empty to submit it.
            reservation: name of the reservation; empty for none.
        """
        share = self.params["share"]
        usable, partners, left_out = self.choose(test, nodes)
        jobs = {
            node: self.describe_jobs(node) for node, why in left_out.items() if why.startswith(("not idle", "draining"))
        }
        # A completing node has no running job.
        busy = {node: words for node, words in jobs.items() if words and left_out[node].startswith(_JOBS_RUN)}
        left_out = {node: f"{why}, {jobs[node]}" if jobs.get(node) else why for node, why in left_out.items()}
        entry = {
            "name": test["name"],
            "nodes": usable,
            "partners": partners,
            "left_out": left_out,
            "held": {},
            "held_by": {},
            "busy": busy,
            "job_id": "",
            "state": "",
            "reason": "",
            "exit_code": "",
            "batch_host": "",
            "seconds": 0.0,
            "submitted_at": time.monotonic(),
            "started_at": 0.0,
        }
        entry["problem"] = problem or self.fault(test, entry, answered=bool(nodes))
        if not entry["problem"]:
            # Slurm counts whole minutes; `poll_jobs` cancels a job earlier, when it exceeds its limit.
            left, longest = self.left(), self.params["time_limit"] + 59
            minutes = math.ceil(min(longest, longest if left is None else left) / 60)
            arguments = sbatch_arguments(test, usable + partners, minutes, share=share, reservation=reservation)
            code, out, err = self.ask(*self.as_user, "sbatch", *arguments, data=test["script"])
            if code == 0:
                entry["job_id"] = out.strip().split(";")[0]
            else:
                entry["problem"] = f"sbatch: {err or code}"
        entry["over"] = not entry["job_id"]
        return entry

    def fault(self, test: dict[str, Any], entry: dict[str, Any], *, answered: bool) -> str:
        """Return why a test cannot be submitted, or ''."""
        usable, partners = entry["nodes"], entry["partners"]
        if not self.as_user:
            return (
                f"the controller has no user {self.params['user']}: run busbar provision slurm, which creates the user"
            )
        if self.left() == 0:
            return f"{CUT_BY_LIMIT}, and the job had not begun"
        if not answered:
            return "slurmctld does not answer"
        if len(usable) + len(partners) >= test["minimum"] and usable:
            return ""
        why = "".join(f"; {node}: {reason}" for node, reason in sorted(entry["left_out"].items())[:8])
        if len(partners) < test["partners"]:
            why += f"; idle partners: {len(partners)} of {test['partners']}"
        return f"too few usable nodes (found {len(usable) + len(partners)}, expected {test['minimum']}){why}"

    def follow(self) -> list[dict[str, Any]]:
        """Poll the jobs until all have ended or `patience` expires, cancel late jobs, and return the entries."""
        entries = [{**job, "reason": "", "busy": {}, "problem": "", "over": False} for job in self.params["jobs"]]
        open_jobs = {entry["job_id"]: entry for entry in entries}
        begun = time.monotonic()
        while open_jobs:
            late = self.poll_jobs(open_jobs)
            # If scancel failed, the job stays open and the caller reports it.
            for job, why in late.items() if self.cancel(list(late)) else ():
                open_jobs[job].update(problem=why, over=True)
            open_jobs = {job: entry for job, entry in open_jobs.items() if not entry["over"]}
            here = time.monotonic() - begun
            if here >= self.params["patience"]:
                break
            if open_jobs:
                time.sleep(self.pause(here, longest=self.params["poll"]))
        for entry in entries:
            if entry["over"]:
                self.close(entry)
        return entries

    def poll_jobs(self, jobs: dict[str, dict[str, Any]]) -> dict[str, str]:
        """Update the entries from squeue; return the jobs that must be cancelled, with the reason."""
        code, out, err = self.ask("squeue", "-h", "-a", "-t", "all", "-j", ",".join(jobs), "-o", "%i|%T|%B|%r")
        # squeue fails with this error for jobs that finished long ago, so slurmctld has answered.
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
        """Return why a job must be cancelled, or ''; `heard` is whether slurmctld answered."""
        waited = now - entry["submitted_at"]
        if self.left() == 0:
            began = "" if entry["started_at"] else f", and the job had not begun{_because(entry['reason'])}"
            return f"{CUT_BY_LIMIT}{began}"
        if heard and not entry["started_at"] and waited > self.params["wait"]:
            why = entry["reason"] or "slurmctld does not answer"
            taken = {node: jobs for node in entry["nodes"][:_MOST_EXPLAINED] if (jobs := self.describe_jobs(node))}
            entry["busy"] |= taken
            why += f" ({'; '.join(f'{node}: {jobs}' for node, jobs in taken.items())})" if taken else ""
            return f"did not start within {self.params['wait']} s: {why}"
        if entry["started_at"] and now - entry["started_at"] > self.params["time_limit"]:
            return f"did not finish within {self.params['time_limit']} s and was cancelled"
        return ""

    def release(self) -> str:
        """Delete the tests' reservation; return why it still exists, or ''.

        A cancelled job stays in the reservation until its nodes have completed it.
        """
        until = time.monotonic() + self.params["wait"]
        while True:
            problem = self.reservation.close() if self.reservation is not None else ""
            if not problem or self.silent or time.monotonic() >= until:
                return problem
            time.sleep(max(1.0, self.params["poll"]))

    def refused_queues(self) -> list[str]:
        """Return the partitions, accounts and QOS that the user cannot submit to, with Slurm's error."""
        problems = []
        for queue in self.params["queues"]:
            words = [f"--{key}={value}" for key, value in queue.items() if value]
            command = [*self.as_user, "sbatch", "--test-only", "--nodes=1", "--time=1", "--chdir=/", *words]
            code, out, err = self.ask(*command, data="#!/bin/sh\n") if self.as_user else (0, "", "")
            self.answered = self.answered or code != _TIMED_OUT
            error = " ".join((err or out).split())
            if code != 0 and _REFUSED_QUEUE.search(error):
                options = ", ".join(f"validation_{key}={value}" for key, value in queue.items() if value)
                problems.append(
                    f"{options}: Slurm rejects a job of {self.params['user']}: {error}. Correct the option, or give "
                    f"{self.params['user']} access with slurm_partitions, slurm_accounts and users_accounts"
                )
        return problems

    def cancel(self, jobs: list[str]) -> bool:
        """Cancel jobs; return whether scancel succeeded."""
        if not jobs:
            return False
        code, _out, _err = self.ask("scancel", *jobs)
        self.answered = self.answered or code == 0
        return code == 0

    def close(self, entry: dict[str, Any]) -> None:
        """Read a job's final state, and find the node that stores its output."""
        code, out, _err = self.ask("scontrol", "-o", "show", "job", entry["job_id"])
        job = parse_job(out) if code == 0 else {}
        entry["exit_code"] = job.get("ExitCode", "")
        host = job.get("BatchHost", "")
        entry["batch_host"] = host if host and host != "(null)" else entry["batch_host"]
        if not entry["problem"]:
            entry["state"] = job.get("JobState", entry["state"])
            if entry["state"] == PREEMPTED:
                self.record_preemption(entry)
            elif entry["state"] in {"NODE_FAIL", "BOOT_FAIL", "CANCELLED", "TIMEOUT", "DEADLINE"}:
                entry["problem"] = f"the job ended as {entry['state']}{_because(entry.get('reason', ''))}"

    def record_preemption(self, entry: dict[str, Any]) -> None:
        """Record the jobs that preempted a test; preemption is not a fault of its nodes."""
        taken = {node: jobs for node in entry["nodes"][:_MOST_EXPLAINED] if (jobs := self.describe_jobs(node))}
        # squeue does not show that a pending job preempts others, only that it has started.
        entry["busy"] |= taken or dict.fromkeys(entry["nodes"], "a job of higher priority")
        entry["problem"] = f"{CUT}preempted by {'; '.join(sorted(set(entry['busy'].values())))}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason and reason != "None" else ""
