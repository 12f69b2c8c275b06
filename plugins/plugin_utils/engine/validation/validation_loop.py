# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Run a validation: plan tests, run their jobs, judge their output, and plan the next tests.

A `Transport` provides all access to hosts.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ....module_utils.slurm.nodes_and_jobs import CUT, CUT_BY_LIMIT
from ..common.hostlist import fold_hosts
from .check_options import typed
from .cluster_access import TOO_LONG, Interrupted, Output
from .controller_answer_check import checked_answer
from .next_tests import budget, next_step, with_results
from .validation_types import FIRST

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .cluster_access import Transport
    from .validation_types import Entry, Result, State, Step

# Time for which the controller may be busy or unreachable.
_SILENCE_S = 60
_AGAIN_S = 5
# Pauses between queries: short at first, so that small tests finish quickly.
_PATIENCE_S = (3.0, 5.0, 10.0, 15.0)
_FETCH_S = 600
_LAST_FETCH_S = 15
# The keys of a submitted job that a later answer may change.
_NEWS = ("state", "reason", "exit_code", "batch_host", "seconds", "problem")
_MOST_SHOWN = 4
# slurmd cancels a job that it cannot launch.
_CANCELLED = "the job ended as CANCELLED"
# Number of slurmd logs to read: each needs a connection, and many jobs often have the same cause.
_MOST_LOGS = 4
_MOST_TEXT = 500


class Loop:
    """A running validation: its options and results so far.

    Attributes:
        state: results so far.
        stopped: why it stopped early; otherwise empty.
        unended: IDs of jobs that could not be cancelled.
        reserved: whether a reservation was created for the tests.
        unrestored: nodes that were resumed for a test and could not be drained again, each with the remedy.
    """

    def __init__(self, options: Mapping[str, Any], transport: Transport) -> None:
        """Store the options (see check_options.typed) and the transport.

        Raises:
            ValueError: the options are invalid.
        """
        self.options = typed(options)
        self.transport = transport
        self.state: State = FIRST
        self.stopped = ""
        self.unended: list[str] = []
        self.reserved = False
        self.unrestored: dict[str, str] = {}

    def reservation(self) -> dict[str, Any] | None:
        """Return the reservation of the tests as an argument for the slurm_tests module, or None."""
        name = self.options.get("reservation") or ""
        if not name and not self.options.get("out_of_service"):
            return None
        return {"name": name, "fresh": not self.reserved}

    def left(self) -> float | None:
        """Return the seconds left for tests, or None without a limit."""
        total = self.options["time_limit"]
        return max(0.0, self.options["began"] + total - self.transport.now()) if total else None

    def run(self) -> None:
        """Run all tests.

        Raises:
            Interrupted: the validation was interrupted; the state contains the results so far.
        """
        self.transport.report_progress(budget(self.options))
        while True:
            step = next_step(self.options, self.state, self.transport.now())
            if not step["tests"]:
                self.stopped = step["stopped"] or self._cut_by_limit()
                return
            Round(self, step).run()

    def _cut_by_limit(self) -> str:
        """Return a message if the overall time limit cut tests short after all had started; otherwise empty."""
        cut = [test["name"] for test in self.state["tests"] if test["job"]["problem"].startswith(CUT_BY_LIMIT)]
        limit = f"the time limit of {self.options['time_limit']} s for all tests"
        return f"{limit} cut short {', '.join(cut)}" if cut else ""

    def release(self, seconds: float) -> str:
        """Delete the reservation of the tests; return the error, or an empty string on success.

        Args:
            seconds: how long to wait for its jobs to end.
        """
        if not self.reserved:
            return ""
        arguments = {"state": "released", "user": self.options["user"], "wait": int(seconds)}
        result = self.transport.request(arguments | {"reservation": self.reservation()})
        if result.get("answered") is not True:
            return f"the reservation of the tests was not deleted: {result.get('msg') or 'slurmctld does not answer'}"
        given = result.get("problems")
        return "; ".join(str(problem) for problem in given) if isinstance(given, list) else ""


class Round:
    """Submits the tests of one step, waits for them, fetches their output and judges it."""

    def __init__(self, loop: Loop, step: Step) -> None:
        """Store the validation and the step from next_step."""
        self.loop = loop
        self.transport = loop.transport
        self.step = step
        self.entries: list[Entry] = []
        # Data about each job that the controller returns and that later requests must contain.
        self.notes: dict[str, dict[str, Any]] = {}
        self.open: set[str] = set()
        self.fetched: dict[str, str] = {}
        self.node_reasons: list[str] = []
        self.problem = ""

    def run(self) -> None:
        """Run the tests and add their results to the state, even if interrupted."""
        self._report_step()
        try:
            self._submit()
            self._follow()
        except BaseException as exc:
            why = str(exc) if isinstance(exc, Interrupted) else f"{type(exc).__name__}: {exc}"
            # An error during this cleanup must not replace the original one.
            with contextlib.suppress(Exception):
                self._cut(f"{CUT}{why}")
            with contextlib.suppress(Exception):
                self._fetch(_LAST_FETCH_S)
            with contextlib.suppress(Exception):
                self._enter()
            raise
        with self.transport.uninterrupted():
            self._enter()

    # -- the controller ------------------------------------------------------------------------------------------

    def _arguments(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any option of the module
        options = self.loop.options
        return {
            "user": options["user"],
            "home": self.transport.home,
            "share": self.transport.share,
            "wait": self.step["wait"],
            "wait_for_jobs": not options.get("allow_busy"),
            "time_limit": self.step["time_limit"],
            "left": self.loop.left(),
            **more,
        }

    def _submit(self) -> None:
        """Submit the tests once their nodes are idle or the wait has timed out."""
        began = self.transport.now()
        reported: dict[str, str] = {}
        patience = iter(_PATIENCE_S)
        while True:
            waited = max(0.0, self.transport.now() - began)
            more = {"tests": [test["job"] for test in self.step["tests"]], "waited": waited}
            more["reservation"] = self.loop.reservation()
            # Between the submission of a job and the receipt of its ID, the job cannot be cancelled.
            with self.transport.uninterrupted():
                result = self.transport.request(self._arguments(**more, patience=next(patience, _PATIENCE_S[-1])))
                waits_for = self._waits_for(result)
                if not waits_for or waited > self.step["wait"] + _SILENCE_S:
                    self._take(result)
                    break
            if waits_for.keys() != reported.keys():
                reported = waits_for
                self.transport.report_progress(f"waits for {_who_and_why(reported)}")
        jobs = list(dict.fromkeys(entry["job_id"] for entry in self.entries if entry["job_id"]))
        if jobs:
            self.transport.report_progress(f"{len(jobs)} job(s) submitted: {_some(jobs)}")

    def _waits_for(self, result: dict[str, Any]) -> dict[str, str]:
        """Return the nodes that the tests are waiting for, each with the reason."""
        given = result.get("waits_for")
        words = given if isinstance(given, dict) and not result.get("tests") else {}
        nodes = {node for test in self.step["tests"] for node in test["job"]["nodes"]}
        return {node: str(words[node]) for node in sorted(nodes) if node in words}

    def _take(self, result: dict[str, Any]) -> None:
        """Process the answer to a submission."""
        answer = self._checked(result)
        self.entries, self.problem = answer["tests"], "" if answer["tests"] else answer["msg"] or "no answer"
        self._note(result.get("tests"))
        self.loop.reserved = self.loop.reserved or bool(result.get("reserved"))
        self._note_unrestored(result.get("unrestored"))
        self.open = {entry["name"] for entry in self.entries if entry["job_id"] and not entry["problem"]}

    def _checked(self, result: dict[str, Any]) -> Result:
        answer = checked_answer(self.loop.options, self.step, result, self.transport.controller)
        self.node_reasons = answer["node_reasons"] or self.node_reasons
        return answer

    def _note_unrestored(self, given: object) -> None:
        nodes = {node for test in self.step["tests"] for node in test["job"]["nodes"]}
        words = given if isinstance(given, dict) else {}
        self.loop.unrestored |= {node: str(words[node])[:_MOST_TEXT] for node in sorted(nodes) if node in words}

    def _note(self, given: object) -> None:
        for entry in given if isinstance(given, list) else []:
            if isinstance(entry, dict):
                times = {key: entry.get(key) for key in ("submitted_at", "started_at")}
                known = {key: value for key, value in times.items() if isinstance(value, (int, float))}
                self.notes[str(entry.get("name"))] = known

    def _follow(self) -> None:
        """Wait for all jobs, and fetch the output of a job when it has finished."""
        began = heard = self.transport.now()
        patience = iter(_PATIENCE_S)
        running: set[str] = set()
        self._fetch(_FETCH_S)
        while self.open:
            started = self.transport.now()
            jobs = [
                {key: entry[key] for key in ("name", "job_id", "nodes", "state", "batch_host", "seconds")}
                | self.notes.get(entry["name"], {})
                for entry in self.entries
                if entry["name"] in self.open
            ]
            more = {"state": "followed", "jobs": jobs, "patience": next(patience, _PATIENCE_S[-1])}
            result = self.transport.request(self._arguments(**more))
            if result.get("answered") is True:
                heard = self.transport.now()
            self._learn(result)
            fresh = {entry["name"] for entry in self.entries if entry["state"] == "RUNNING"} - running
            if fresh and self.open:
                running |= fresh
                self.transport.report_progress(f"running: {_some(sorted(fresh))}")
            self._fetch(_FETCH_S)
            if self.open:
                self._give_up(result, self.transport.now() - began, self.transport.now() - heard)
            if self.open and self.transport.now() - started < 1:
                self.transport.sleep(_AGAIN_S)

    def _give_up(self, result: dict[str, Any], followed: float, silent: float) -> None:
        """Cancel the open jobs if the controller does not answer or does not stop them in time.

        Args:
            result: the last answer.
            followed: seconds since the jobs were submitted.
            silent: seconds since the last successful answer.
        """
        controller = self.transport.controller
        if self.loop.left() == 0:
            self._cut(CUT_BY_LIMIT)
        elif silent >= _SILENCE_S:
            why = " ".join(str(result.get("msg") or "slurmctld does not answer").split())[:_MOST_TEXT]
            self.problem = f"{controller} did not answer for {silent:.0f} s: {why}"
            self._cut(f"{CUT}{self.problem}")
        elif followed > self.step["wait"] + self.step["time_limit"] + _SILENCE_S:
            self.problem = f"{controller} did not cancel these jobs in time: {_some(sorted(self.open))}"
            self._cut(f"{CUT}{self.problem}")
        self._fetch(_LAST_FETCH_S)

    def _learn(self, result: dict[str, Any]) -> None:
        """Update the unfinished jobs from a controller's answer."""
        news = _by_name(result, self.open)
        if not news:
            return
        whole = [_renewed(entry, news.get(entry["name"], {})) for entry in self.entries]
        answer = self._checked({"tests": whole, "node_reasons": result.get("node_reasons")})
        if not answer["tests"]:
            self.entries, self.problem = [], answer["msg"]
            self._end({entry["name"]: entry["job_id"] for entry in whole if entry["name"] in self.open})
            self.open = set()
            return
        self.entries = answer["tests"]
        self._note(list(news.values()))
        self.open -= {name for name, entry in news.items() if entry.get("over") is True}

    # -- results -------------------------------------------------------------------------------------------------

    def _fetch(self, seconds: float) -> None:
        """Save the outputs of finished jobs."""
        ready = [
            Output(f"{entry['name']}.out", entry["batch_host"], entry["output"])
            for entry in self.entries
            if entry["output"] and entry["name"] not in self.open and f"{entry['name']}.out" not in self.fetched
        ]
        if ready:
            self.fetched |= self.transport.fetch(ready, seconds)

    def _explain(self) -> None:
        """Add slurmd's launch error to cancelled jobs without an output."""
        cancelled = [entry for entry in self.entries if entry["problem"].startswith(_CANCELLED) and entry["output"]]
        logged = [entry for entry in cancelled if self.fetched.get(f"{entry['name']}.out") != ""]
        for entry in logged[:_MOST_LOGS]:
            if reason := self.transport.launch_error(entry["batch_host"], entry["job_id"]):
                entry["problem"] = f"slurmd on {entry['batch_host']} could not launch the job: {reason}"[:_MOST_TEXT]

    def _texts(self) -> list[str | None]:
        """Return the output of each test; entries with unusable output get a problem."""
        texts: list[str | None] = []
        for entry in self.entries:
            name, text = f"{entry['name']}.out", None
            try:
                text = self.transport.read(name) if self.fetched.get(name) == "" else None
            except OSError as exc:
                self.fetched[name] = exc.strerror or str(exc)
            except ValueError as exc:
                entry["problem"] = entry["problem"] or str(exc)
            problem = self.fetched.get(name)
            if problem:
                self.transport.report_progress(f"output of {entry['name']} from {entry['batch_host']}: {problem}")
            if problem and problem.startswith(TOO_LONG):
                entry["problem"] = entry["problem"] or problem
            texts.append(text)
        return texts

    def _enter(self) -> None:
        """Judge the tests and add them to the state."""
        result = {"tests": self.entries, "node_reasons": self.node_reasons, "msg": self.problem}
        before = len(self.loop.state["tests"])
        self._explain()
        texts = self._texts()
        self.loop.state = with_results(self.loop.options, self.loop.state, self.step, result, texts)
        if self.problem and self.entries:
            self.loop.state = {**self.loop.state, "problem": self.problem}
        for test in self.loop.state["tests"][before:]:
            self.transport.report_progress(f"{test['verdict']}  {test['name']}: {test['reason']}")

    # -- cancelling tests and finishing the validation -----------------------------------------------------------

    def _cut(self, why: str) -> None:
        """Cancel the open jobs and record the reason in their entries."""
        cut = {entry["name"]: entry["job_id"] for entry in self.entries if entry["name"] in self.open}
        for entry in self.entries:
            entry["problem"] = why if entry["name"] in cut else entry["problem"]
        self.open = set()
        if not self.entries:
            self.problem = self.problem or why.removeprefix(CUT)
        news = self._end(cut)
        # Save the partial output of the jobs.
        places = {name: {"batch_host": last["batch_host"]} for name, last in news.items() if last.get("batch_host")}
        whole = [_renewed(entry, places.get(entry["name"], {})) for entry in self.entries]
        self.entries = self._checked({"tests": whole})["tests"] or self.entries

    def _end(self, jobs: dict[str, str]) -> dict[str, dict[str, Any]]:
        """Cancel the jobs of the named tests, and return the controller's last answer about each."""
        if not jobs:
            return {}
        running = [{"name": name, "job_id": job} for name, job in jobs.items()]
        result = self.transport.request(self._arguments(state="cancelled", jobs=running))
        if result.get("answered") is not True:
            self.loop.unended += set(jobs.values()) - set(self.loop.unended)
        return _by_name(result, jobs)

    def _report_step(self) -> None:
        step, left = self.step, self.loop.left()
        nodes = fold_hosts(sorted({node for test in step["tests"] for node in test["job"]["nodes"]}))
        of = "culprit search, " if step["search"] else ""
        more = "" if left is None else f"; {left:.0f} s left"
        self.transport.report_progress(
            f"stage {step['stage']}: {of}{len(step['tests'])} test(s) on {nodes}, at most {step['time_limit']} s{more}"
        )


def _by_name(result: dict[str, Any], names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return the parts of an answer that concern the given tests."""
    given = result.get("tests")
    entries = [entry for entry in given if isinstance(entry, dict)] if isinstance(given, list) else []
    return {str(entry.get("name")): entry for entry in entries if str(entry.get("name")) in names}


def _renewed(entry: Entry, news: dict[str, Any]) -> dict[str, Any]:
    """Return the entry, updated with the answer about its job."""
    busy = news.get("busy")
    fresh = {key: news[key] for key in _NEWS if key in news}
    return entry | fresh | {"busy": entry["busy"] | (busy if isinstance(busy, dict) else {})}


def _who_and_why(reasons: dict[str, Any]) -> str:
    shown = [f"{node} ({why})" for node, why in sorted(reasons.items())[:_MOST_SHOWN]]
    return ", ".join(shown) + _more(len(reasons))


def _some(names: list[str]) -> str:
    return ", ".join(names[:_MOST_SHOWN]) + _more(len(names))


def _more(number: int) -> str:
    return f" and {number - _MOST_SHOWN} more" if number > _MOST_SHOWN else ""
