"""Tests of validations on drained nodes: jobs run in a reservation, and each node gets its previous state back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import job_runner
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.nodes_and_jobs import drain_authors
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.reservation import (
    NodeReservation,
    parse_reservation,
)
from fake_clock import FakeClock

# Output of `scontrol -o show reservation` of Slurm 24.11.
SHOWN = (
    "ReservationName={name} StartTime=2026-11-22T21:00:00 EndTime=2026-11-22T21:17:00 Duration=00:17:00 Nodes={nodes} "
    "NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) Flags={flags} TRES=cpu=4 Users={users} Groups=(null) "
    "Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) MaxStartDelay=(null) Comment=(null)\n"
)
OURS = {"flags": "MAINT,IGNORE_JOBS,SPEC_NODES", "users": "root"}
PARAMS: dict[str, Any] = {
    "user": "root",
    "home": "/root",
    "share": False,
    "poll": 1.0,
    "wait": 60,
    "wait_for_jobs": True,
    "waited": 0.0,
    "patience": 1e9,
    "time_limit": 600,
    "left": None,
}


class Slurm(FakeClock):
    """Nodes with their states and reasons, one reservation, and jobs that start after some seconds.

    Attributes:
        history: every change in order, as action and target.
        undrainable: nodes that cannot be drained.
    """

    def __init__(self, nodes: dict[str, tuple[str, str]], starts_after: float = 2.0) -> None:
        """Store the nodes."""
        self.now = 1000.0
        self.nodes = dict(nodes)
        self.reservation: dict[str, str] | None = None
        self.gate: dict[str, str] | None = None
        self.jobs: dict[str, dict[str, Any]] = {}
        self.starts_after = starts_after
        self.history: list[tuple[str, str]] = []
        self.undrainable: set[str] = set()
        self.in_reservation = ""

    def run_command(self, command: list[str], **_more: object) -> tuple[int, str, str]:
        """Answer a Slurm command."""
        words = [word for word in command[2:] if not word.startswith(("env", "HOME=", "USER=", "LOGNAME=", "SHELL="))]
        words = [word for word in words if word != "-i" and not word.startswith(("PATH=", "LANG=", "SLURM_CONF="))]
        commands = {"sinfo": self.sinfo, "squeue": self.squeue, "sbatch": self.sbatch, "scontrol": self.scontrol}
        return commands[words[0]](words[1:])

    def sinfo(self, words: list[str]) -> tuple[int, str, str]:
        """List the nodes."""
        if "%N|%u|%H" in words:
            return (
                0,
                "".join(f"{node}|bob|2026-11-20T10:00:00\n" * 2 for node in words[words.index("-n") + 1].split(",")),
                "",
            )
        lines = [f"{node}|{state}|{reason or 'none'}" for node, (state, reason) in self.nodes.items()]
        return 0, "" if "-R" in words else "\n".join(lines), ""

    def squeue(self, words: list[str]) -> tuple[int, str, str]:
        """List jobs."""
        if "-R" in words:
            return 0, self.in_reservation, ""
        if "-j" not in words:
            return 0, "", ""
        lines = []
        for number in words[words.index("-j") + 1].split(","):
            job = self.jobs[number]
            free = all(self.nodes[node][0] in {"idle", "maint"} for node in job["nodes"])
            if job["state"] == "PENDING" and self.now >= job["at"] + self.starts_after and free:
                job["state"] = "RUNNING"
            lines.append(f"{number}|{job['state']}|gpu1|None")
        return 0, "\n".join(lines), ""

    def sbatch(self, words: list[str]) -> tuple[int, str, str]:
        """Accept a job."""
        asked = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
        if "--test-only" in words:
            wrong = asked.get("partition") == "nowhere"
            return (1, "", "allocation failure: Invalid partition name specified") if wrong else (0, "", "")
        number = str(len(self.jobs) + 1)
        nodes = asked["nodelist"].split(",")
        place = asked.get("reservation", "")
        self.jobs[number] = {"nodes": nodes, "state": "PENDING", "at": self.now, "reservation": place}
        self.history.append(("sbatch", ",".join(nodes)))
        return 0, number, ""

    def scontrol(self, words: list[str]) -> tuple[int, str, str]:
        """Show and change the reservation, change nodes."""
        asked = dict(word.split("=", 1) for word in words if "=" in word)
        if "busbar-new" in (words[-1], asked.get("ReservationName")):
            return self._gate(words, asked)
        if "show" in words:
            if self.reservation is None or self.reservation["name"] != words[-1]:
                return 1, f"Reservation {words[-1]} not found\n", ""
            return 0, SHOWN.format(**self.reservation), ""
        if "NodeName" in asked:
            return self._node(asked)
        self.history.append((words[0], asked.get("Nodes", "")))
        if words[0] == "delete":
            self.reservation = None
        elif words[0] == "create":
            self.reservation = {"name": asked["ReservationName"], "nodes": asked["Nodes"], **OURS}
            self.reservation["users"] = asked["Users"]
        elif self.reservation is not None:
            self.reservation["nodes"] = asked["Nodes"]
        return 0, "", ""

    def _gate(self, words: list[str], asked: dict[str, str]) -> tuple[int, str, str]:
        """Show and change the reservation of new nodes, which has no end time."""
        if "show" in words:
            return (0, SHOWN.format(**self.gate), "") if self.gate else (1, "Reservation busbar-new not found\n", "")
        self.history.append((f"{words[0]} gate", asked.get("Nodes", "")))
        if words[0] == "create":
            assert (asked["Duration"], asked["Flags"]) == ("infinite", "maint,ignore_jobs")
            self.gate = {"name": "busbar-new", **OURS, "users": asked["Users"]}
        self.gate = None if words[0] == "delete" else {**(self.gate or {}), "nodes": asked["Nodes"]}
        return 0, "", ""

    def _node(self, asked: dict[str, str]) -> tuple[int, str, str]:
        self.history.append((asked["State"], asked["NodeName"]))
        for node in asked["NodeName"].split(","):
            if asked["State"] == "DRAIN" and node in self.undrainable:
                return 1, "", "slurm_update error: Unable to contact slurm controller"
            busy = any(node in job["nodes"] and job["state"] == "RUNNING" for job in self.jobs.values())
            drained = ("draining" if busy else "drained", asked.get("Reason", ""))
            self.nodes[node] = drained if asked["State"] == "DRAIN" else ("maint", "")
        return 0, "", ""


def runner(monkeypatch: pytest.MonkeyPatch, slurm: Slurm, **changes: Any) -> job_runner.Runner:  # noqa: ANN401
    monkeypatch.setattr(job_runner, "time", slurm)
    params = PARAMS | {"reservation": {"name": "", "fresh": True}} | changes
    return job_runner.Runner(SimpleNamespace(params=params, run_command=slurm.run_command))


def job(name: str, nodes: list[str], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any part of a test
    blank = {"candidates": [], "partners": 0, "minimum": 1, "script": "x", "arguments": [], "output": "/x"}
    return {"name": name, "nodes": nodes, **blank, **changes}


def submitted(run: job_runner.Runner) -> list[dict[str, Any]]:
    nodes, waits_for = run.wait_for_nodes()
    assert waits_for == {}
    return run.submit_all(nodes)


def test_drained_node_is_drained_again_with_its_reason_when_its_job_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan is loud, ask bob"), "gpu2": ("idle", ""), "gpu3": ("idle", "")})
    tests = [job("node-gpu1", ["gpu1"]), job("cluster", ["gpu1"], candidates=["gpu2", "gpu3"], partners=1)]
    entries = submitted(runner(monkeypatch, slurm, tests=tests[1:]))
    assert [entry["job_id"] for entry in entries] == ["1"]
    assert (entries[0]["nodes"], entries[0]["partners"]) == (["gpu1"], ["gpu2"])
    assert entries[0]["held"] == {"gpu1": "fan is loud, ask bob"}
    assert entries[0]["held_by"] == {"gpu1": "bob, 2026-11-20T10:00:00"}
    assert slurm.history == [("create", "gpu1,gpu2"), ("RESUME", "gpu1"), ("sbatch", "gpu1,gpu2"), ("DRAIN", "gpu1")]
    assert slurm.jobs["1"] == {
        "nodes": ["gpu1", "gpu2"],
        "state": "RUNNING",
        "at": 1000.0,
        "reservation": "busbar-validation",
    }
    assert slurm.nodes["gpu1"] == ("draining", "fan is loud, ask bob")


def test_drain_author_is_read_from_sinfo() -> None:
    text = "gpu1|Unk(1005)|2026-11-20T10:00:00\ngpu2|Unknown|Unknown\ngpu3|root|Unknown\nslurm_load_node: error\n"
    assert drain_authors(text) == {"gpu1": "Unk(1005), 2026-11-20T10:00:00"}


def test_nodes_in_service_need_no_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("idle", ""), "gpu2": ("idle", "")})
    submitted(runner(monkeypatch, slurm, tests=[job("cluster", ["gpu1", "gpu2"])]))
    assert slurm.history == [("sbatch", "gpu1,gpu2")]
    assert slurm.jobs["1"]["reservation"] == ""


def test_node_reserved_by_others_is_tested_and_not_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("reserved", "")})
    (entry,) = submitted(runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])]))
    assert (entry["job_id"], entry["held"]) == ("1", {})
    assert slurm.history == [("create", "gpu1"), ("sbatch", "gpu1")]


@pytest.mark.parametrize("state", ["drained", "reserved", "maint"])
def test_node_out_of_service_is_left_out_without_permission(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    slurm = Slurm({"gpu1": (state, "fan")})
    (entry,) = submitted(runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])], reservation=None, wait=0))
    assert entry["left_out"] == {"gpu1": f"{state} (fan)"}
    assert slurm.history == []


@pytest.mark.parametrize("state", ["down", "drained*", "draining", "drng*", "allocated", "mixed"])
def test_busy_or_unresponsive_node_is_never_resumed(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    slurm = Slurm({"gpu1": (state, "fan"), "gpu2": ("drained", "fan")})
    run = runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"]), job("node-gpu2", ["gpu2"])], wait=5)
    first, second = submitted(run)
    assert (first["job_id"], second["job_id"]) == ("", "1")
    assert [node for what, node in slurm.history if what in {"RESUME", "DRAIN", "create"}] == ["gpu2"] * 3


def test_job_that_does_not_start_leaves_its_node_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan")}, starts_after=1e9)
    (entry,) = submitted(runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])]))
    assert entry["job_id"] == "1"
    assert slurm.nodes["gpu1"] == ("drained", "fan")
    assert slurm.now == pytest.approx(1000 + PARAMS["wait"], abs=2)


def test_node_is_drained_again_after_a_failed_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan")})
    monkeypatch.setattr(slurm, "sbatch", lambda _words: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        submitted(runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])]))
    assert slurm.nodes["gpu1"] == ("drained", "fan")


def test_node_that_cannot_be_drained_again_is_reported_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan")})
    slurm.undrainable = {"gpu1"}
    run = runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])])
    (entry,) = submitted(run)
    assert entry["problem"] == ""
    assert run.unrestored == {
        "gpu1": "could not be drained again: scontrol update NodeName=gpu1 State=DRAIN Reason='fan'"
    }


def test_next_step_of_the_same_validation_updates_its_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan"), "gpu2": ("maint", "")})
    slurm.reservation = {"name": "busbar-validation", "nodes": "gpu[1-2]", **OURS}
    tests = [job("cluster", ["gpu1", "gpu2"])]
    run = runner(monkeypatch, slurm, tests=tests, reservation={"name": "", "fresh": False})
    (entry,) = submitted(run)
    assert (entry["nodes"], entry["held"]) == (["gpu1", "gpu2"], {"gpu1": "fan"})
    assert slurm.history[0] == ("update", "gpu1,gpu2")


@pytest.mark.parametrize(
    ("there", "jobs", "words"),
    [
        ({"users": "alice"}, "", "was not created by busbar (it is for alice): delete it with"),
        ({"users": "root,alice"}, "", "was not created by busbar"),
        ({"flags": "SPEC_NODES"}, "", "was not created by busbar"),
        ({}, "17\n", "another validation uses the reservation busbar-validation (job 17): wait until it ends"),
    ],
)
def test_reservation_of_another_user_is_refused_and_left_unchanged(
    monkeypatch: pytest.MonkeyPatch, there: dict[str, str], jobs: str, words: str
) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan")})
    slurm.reservation = {"name": "busbar-validation", "nodes": "gpu1", **OURS, **there}
    slurm.in_reservation = jobs
    run = runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])], queues=[])
    assert run.reservation is not None
    assert words in run.reservation.problem()
    (entry,) = submitted(run)
    assert (words in entry["problem"], entry["job_id"]) == (True, "")
    assert slurm.history == []


def test_reservation_of_a_killed_validation_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan"), "gpu2": ("maint", "")})
    slurm.reservation = {"name": "busbar-validation", "nodes": "gpu2", **OURS}
    (entry,) = submitted(runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])]))
    assert entry["job_id"] == "1"
    assert slurm.history[:2] == [("delete", ""), ("create", "gpu1")]


def test_reservation_of_the_site_is_used_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("maint", ""), "gpu2": ("idle", "")})
    slurm.reservation = {"name": "burn-in", "nodes": "gpu1", "users": "alice,root", "flags": "MAINT"}
    given = {"name": "burn-in", "fresh": True}
    run = runner(monkeypatch, slurm, tests=[job("node-gpu1", ["gpu1"])], reservation=given)
    assert submitted(run)[0]["job_id"] == "1"
    assert slurm.jobs["1"]["reservation"] == "burn-in"
    assert run.release() == ""
    run = runner(monkeypatch, slurm, tests=[job("node-gpu2", ["gpu2"])], reservation=given)
    assert submitted(run)[0]["problem"] == "gpu2 is not in the reservation burn-in"
    helped = [job("cluster", ["gpu1"], candidates=["gpu2"], partners=1)]
    (entry,) = submitted(runner(monkeypatch, slurm, tests=helped, reservation=given))
    assert (entry["partners"], entry["job_id"]) == ([], "2")
    assert slurm.history == [("sbatch", "gpu1")] * 2
    run = runner(monkeypatch, slurm, tests=[], reservation={"name": "gone", "fresh": True})
    assert run.reservation is not None
    assert "the reservation gone does not exist: create it, or leave" in run.reservation.problem()


def test_only_our_own_reservation_is_deleted_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("idle", "")})
    run = runner(monkeypatch, slurm, tests=[], reservation={"name": "", "fresh": False})
    assert run.release() == ""
    slurm.reservation = {"name": "busbar-validation", "nodes": "gpu1", **OURS, "users": "alice"}
    assert run.release() == ""
    slurm.reservation["users"] = "root"
    assert run.release() == ""
    assert slurm.history == [("delete", "")]


def test_missing_answer_is_not_a_missing_reservation() -> None:
    place = NodeReservation(lambda *_words: (124, "", "no answer"), "", "root", fresh=True)
    assert place.find() == (None, "cannot query the reservation busbar-validation: no answer")
    assert place.open(["gpu1"], 60) == place.find()[1]


def test_refused_queue_is_reported_with_the_message_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({})
    queues = [{"partition": "gpu", "account": "", "qos": ""}, {"partition": "nowhere", "account": "a", "qos": ""}]
    (problem,) = runner(monkeypatch, slurm, queues=queues, reservation=None).refused_queues()
    assert problem.startswith(
        "validation_partition=nowhere, validation_account=a: Slurm rejects a job of root: allocation failure: Invalid "
        "partition name specified."
    )


def test_scontrol_output_of_a_reservation_is_parsed() -> None:
    found = parse_reservation(SHOWN.format(name="busbar-validation", nodes="gpu[1-2,04]", **OURS))
    assert found is not None
    assert (found.nodes, found.users, found.accounts) == (("gpu1", "gpu2", "gpu04"), ("root",), ())
    assert found.is_of("root")
    assert not found.is_of("alice")
    assert parse_reservation("No reservations in the system\n") is None


def test_new_node_is_always_drained_or_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu1": ("drained", "fan"), "gpu2": ("drained", "busbar: new"), "gpu3": ("idle", "")})
    submitted(runner(monkeypatch, slurm, tests=[job("cluster", ["gpu1", "gpu2"], candidates=["gpu3"], partners=1)]))
    done = [what for what, _nodes in slurm.history]
    assert done == ["create", "create gate", "RESUME", "sbatch", "DRAIN", "DRAIN", "delete gate"]
    assert ("create gate", "gpu2") in slurm.history


def test_new_node_that_cannot_be_drained_again_stays_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu2": ("drained", "busbar: new")})
    slurm.undrainable = {"gpu2"}
    submitted(runner(monkeypatch, slurm, tests=[job("node-gpu2", ["gpu2"])]))
    assert slurm.gate is not None
    assert slurm.gate["nodes"] == "gpu2"


def test_new_node_left_undrained_by_a_killed_run_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurm = Slurm({"gpu1": ("idle", ""), "gpu2": ("maint", ""), "gpu3": ("maint", "")})
    slurm.gate = {"name": "busbar-new", "nodes": "gpu[2-3]", **OURS}
    (entry,) = submitted(runner(monkeypatch, slurm, tests=[job("cluster", ["gpu1", "gpu2"])]))
    assert entry["held"] == {"gpu2": "busbar: new"}
    assert slurm.nodes["gpu2"] == ("draining", "busbar: new")
    assert slurm.gate["nodes"] == "gpu3"


def test_gate_of_another_user_is_refused_before_any_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"gpu2": ("drained", "busbar: new")})
    slurm.gate = {"name": "busbar-new", "nodes": "gpu2", **OURS, "users": "alice"}
    run = runner(monkeypatch, slurm, tests=[job("node-gpu2", ["gpu2"])])
    assert run.reservation is not None
    assert "the reservation busbar-new was not created by busbar (it is for alice)" in run.reservation.problem()
    (entry,) = submitted(run)
    assert "busbar-new was not created by busbar" in entry["problem"]
    assert "RESUME" not in [what for what, _nodes in slurm.history]


def test_500_new_nodes_are_held_and_tested_with_old_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    new = [f"rack{number // 20:02}-h100-node{number:04}" for number in range(500)]
    old = ["gpu1", "gpu2", "gpu3"]
    slurm = Slurm(dict.fromkeys(new, ("drained", "busbar: new")) | dict.fromkeys(old, ("idle", "")))
    words: list[str] = []
    count = 0

    def counted(command: list[str], **more: object) -> tuple[int, str, str]:
        nonlocal count
        words.extend(command)
        count += 1
        return slurm.run_command(command, **more)

    monkeypatch.setattr(job_runner, "time", slurm)
    params = PARAMS | {"reservation": {"name": "", "fresh": True}}
    params["tests"] = [job("cluster", new, candidates=old, partners=2)]
    (entry,) = submitted(job_runner.Runner(SimpleNamespace(params=params, run_command=counted)))
    assert (entry["nodes"], entry["partners"], entry["problem"]) == (new, ["gpu1", "gpu2"], "")
    assert entry["held"] == dict.fromkeys(new, "busbar: new")
    assert [what for what, _nodes in slurm.history] == [
        *("create", "create gate", "RESUME", "sbatch", "DRAIN", "delete gate"),
    ]
    assert {state for node, (state, _reason) in slurm.nodes.items() if node in new} == {"draining"}
    # Linux limits an argument to 128 KiB (MAX_ARG_STRLEN); the number of commands does not depend on the nodes.
    assert max(map(len, words)) < 1 << 15
    assert count < 20
