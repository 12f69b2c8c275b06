"""The action that runs a validation, in a real ansible-playbook, with a Slurm of processes on this machine."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from report_samples import nccl_text, validation
from validation_samples import validation_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOP = Path(__file__).parents[4]
NODES = ["gpu1", "gpu2"]
USER = "nobody"
SCHEMA = json.loads((TOP / "roles/validation/files/report.schema.json").read_text(encoding="utf-8"))
# It prints what was made ready for its test, and does what else is asked for it.
SCRIPT = """#!/bin/bash
cat {texts}/$SLURM_JOB_NAME
if [ -f {texts}/$SLURM_JOB_NAME.sh ]; then . {texts}/$SLURM_JOB_NAME.sh; fi
"""
PLAY = """
- hosts: ctl
  gather_facts: false
  tasks:
    - busbar.cluster.validation:
        options: "{{ options }}"
        reports_dir: "{{ reports }}"
        output_limit: "{{ output_limit | default('1G') }}"
      delegate_to: ctl
      register: done
    - ansible.builtin.debug:
        var: done
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another")


class Site:
    """A controller and two nodes, all of them this machine."""

    def __init__(self, folder: Path) -> None:
        """Make what they need below a folder that everybody may read."""
        self.folder = folder
        self.runs: list[subprocess.Popen[bytes]] = []
        self.slurm, self.texts, self.out = folder / "slurm", folder / "texts", folder / "out"
        inside = (self.slurm / name for name in ("jobs", "reasons", "authors"))
        for place in (folder, self.slurm, self.texts, self.out, *inside):
            place.mkdir(exist_ok=True)
            place.chmod(0o755)
        number = pwd.getpwnam(USER).pw_uid
        for place in (self.out, self.slurm / "jobs"):
            os.chown(place, number, -1)
        (self.slurm / "nodes").write_text(" ".join(NODES), encoding="utf-8")
        program = (TOP / "tests/fixtures/pretended_slurm.py").read_text(encoding="utf-8")
        (self.slurm / "slurm").write_text(f"#!/usr/bin/python3\n{program}", encoding="utf-8")
        (self.slurm / "slurm").chmod(0o755)
        for name in ("sbatch", "squeue", "scontrol", "scancel", "sinfo"):
            (self.slurm / name).symlink_to("slurm")
        for name, nodes in {"node-gpu1": NODES[:1], "node-gpu2": NODES[1:], "cluster": NODES}.items():
            self.prints(name, nccl_text(nodes, 8, 475.0 if len(nodes) == 1 else 365.0, program="all_reduce"))
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = {"all": {"hosts": {"ctl": local, **dict.fromkeys(NODES, local)}}}
        (folder / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        (folder / "play.yml").write_text(PLAY, encoding="utf-8")

    def prints(self, name: str, text: str, script: str = "") -> None:
        """Say what a job prints of itself, and what it does then."""
        body = f"# busbar test: all_reduce 1\n{text}# busbar exit: all_reduce 1 0\n"
        (self.texts / f"busbar-{name}").write_text(body, encoding="utf-8")
        if script:
            (self.texts / f"busbar-{name}.sh").write_text(f"{script}\n", encoding="utf-8")

    def start(self, **changes: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - any option
        """Start a validation."""
        more = {key: changes.pop(key) for key in ("output_limit",) if key in changes}
        script, output = SCRIPT.format(texts=self.texts), f"{self.out}/x-%j.out"
        own: dict[str, Any] = {"user": USER, "script": script, "output": output, "began": time.time(), "wait": 5}
        own |= changes
        nodes = own.pop("nodes", NODES)
        given = {"options": validation_options(nodes, **own), "reports": str(self.folder / "reports"), **more}
        (self.folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
        path = f"{self.slurm}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = ["ansible-playbook", "-i", "hosts.json", "play.yml", "-e", "@given.json"]
        environment = os.environ | {"PATH": path, "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        environment |= {"ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections")}
        with (self.folder / "said").open("w", encoding="utf-8") as said:
            run = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=said, stderr=said, start_new_session=True
            )
        self.runs.append(run)
        return run

    @property
    def said(self) -> str:
        """What the last run has printed so far."""
        return (self.folder / "said").read_text(encoding="utf-8")

    def end(self) -> None:
        """End what still runs."""
        for run in self.runs:
            run.terminate()
            run.wait(60)

    def validate(self, **changes: Any) -> str:  # noqa: ANN401 - any option
        """Run a validation; returns what was printed."""
        assert self.start(**changes).wait(200) == 0, self.said
        return self.said

    @property
    def latest(self) -> Path:
        """Where the last report is."""
        return self.folder / "reports" / "latest"

    @property
    def report(self) -> dict[str, Any]:
        """The last report, all of whose files are there."""
        files = {path.name for path in self.latest.iterdir()}
        assert {"report.json", "report.html", "junit.xml", "busbar.prom"} <= files
        found: dict[str, Any] = json.loads((self.latest / "report.json").read_text(encoding="utf-8"))
        jsonschema.validate(found, SCHEMA)
        return found

    def drain(self, node: str, reason: str) -> None:
        """Drain a node, as bob did."""
        (self.slurm / "authors" / node).write_text("bob|2026-11-20T10:00:00", encoding="utf-8")
        (self.slurm / "reasons" / node).write_text(reason, encoding="utf-8")

    @property
    def drained(self) -> dict[str, str]:
        """The nodes that are drained, each with its reason."""
        return {path.name: path.read_text(encoding="utf-8") for path in (self.slurm / "reasons").iterdir()}

    @property
    def changes(self) -> list[str]:
        """What scontrol was asked to change, in order."""
        path = self.slurm / "changes"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def running(self) -> list[str]:
        """The numbers of jobs that run."""
        jobs = sorted((self.slurm / "jobs").iterdir())
        return [job.name for job in jobs if not (job / "code").exists() and not (job / "cancelled").exists()]


@pytest.fixture
def site() -> Iterator[Site]:
    # Not below pytest's own folder: each other pytest that starts closes that for the user of the jobs.
    with tempfile.TemporaryDirectory(prefix="busbar-test-") as place:
        Path(place).chmod(0o755)
        found = Site(Path(place) / "site")
        yield found
        found.end()


def wait_until(site: Site, true: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, site.said
        time.sleep(0.2)


def test_a_healthy_cluster_passes_and_leaves_its_outputs_and_a_report(site: Site) -> None:
    said = site.validate()
    assert site.report["verdict"] == "PASS", site.report["reason"]
    assert "VALIDATION validation of gpu[1-2]: node: 2 test(s)" in said
    assert "VALIDATION PASS cluster: " in said
    for name in ("node-gpu1", "node-gpu2", "cluster"):
        assert (site.latest / f"{name}.out").read_bytes() == (site.texts / f"busbar-{name}").read_bytes()
    assert list(site.out.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_what_was_gathered_and_no_job(site: Site, number: signal.Signals) -> None:
    site.prints("cluster", "", "sleep 300")
    run = site.start()
    wait_until(site, lambda: site.running() == ["3"])
    run.send_signal(number)
    run.wait(60)
    wait_until(site, (site.latest / "report.html").exists)
    found = site.report
    assert (found["verdict"], found["reason"]) == ("INCONCLUSIVE", f"interrupted by {number.name}")
    verdicts = {test["name"]: test["verdict"] for test in found["tests"]}
    assert verdicts == {"node-gpu1": "PASS", "node-gpu2": "PASS", "cluster": "INCONCLUSIVE"}
    assert site.running() == []
    assert (site.slurm / "jobs" / "3" / "cancelled").exists()
    assert (site.latest / "node-gpu1.out").stat().st_size > 1000
    assert "all_reduce" in (site.latest / "cluster.out").read_text(encoding="utf-8")


def test_a_limit_is_a_limit_for_all_that_runs(site: Site) -> None:
    site.prints("cluster", "", "sleep 300")
    began = time.monotonic()
    site.validate(stages=["cluster"], time_limit=12)
    assert time.monotonic() - began < 60
    found = site.report
    assert found["verdict"] == "INCONCLUSIVE"
    assert found["tests"][0]["reason"] == "cut off: the time for all tests is over"
    assert found["tests"][0]["job"]["seconds"] <= 12
    assert found["stopped"] == "the time of 12 s for all tests was over in cluster"
    assert "--time=1 " in (site.slurm / "jobs" / "1" / "asked").read_text(encoding="utf-8")
    assert site.running() == []


def test_drained_nodes_are_tested_behind_a_reservation_and_given_back_by_whose_they_are(site: Site) -> None:
    site.drain("gpu1", "busbar: slow")
    site.drain("gpu2", "fan is loud")
    said = site.validate(out_of_service=True)
    found = site.report
    assert (found["verdict"], found["held"]) == ("PASS", {"gpu1": "busbar: slow", "gpu2": "fan is loud"})
    assert found["held_by"] == dict.fromkeys(("gpu1", "gpu2"), "bob, 2026-11-20T10:00:00")
    assert (found["resumed"], found["leftovers"]) == ([{"node": "gpu1", "problem": ""}], [])
    assert site.drained == {"gpu2": "fan is loud"}
    create, resume, *again = site.changes[:4]
    words = "create reservation ReservationName=busbar-validation Nodes=gpu1,gpu2 StartTime=now Duration="
    assert create.startswith(words)
    assert create.endswith(f"Users={USER} Flags=maint,ignore_jobs")
    assert resume == "update NodeName=gpu1,gpu2 State=RESUME"
    assert {*again} == {
        "update NodeName=gpu1 State=DRAIN Reason=busbar: slow",
        "update NodeName=gpu2 State=DRAIN Reason=fan is loud",
    }
    assert site.changes[-2:] == ["delete ReservationName=busbar-validation", "update nodename=gpu1 state=resume"]
    for number in ("1", "2", "3"):
        asked = (site.slurm / "jobs" / number / "asked").read_text(encoding="utf-8")
        assert "--reservation=busbar-validation" in asked
    assert "stays drained  gpu2: fan is loud (bob, 2026-11-20T10:00:00)" in said
    assert "resumed  gpu1: was drained: busbar: slow (bob, 2026-11-20T10:00:00)" in said


def test_an_interruption_leaves_drained_nodes_as_they_were_and_no_reservation(site: Site) -> None:
    site.drain("gpu1", "busbar: new")
    site.prints("node-gpu1", "", "sleep 300")
    run = site.start(out_of_service=True, nodes=["gpu1"], pool=NODES)
    wait_until(site, lambda: site.running() == ["1"] and site.drained == {"gpu1": "busbar: new"})
    run.send_signal(signal.SIGINT)
    run.wait(60)
    wait_until(site, (site.latest / "report.html").exists)
    assert (site.report["verdict"], site.report["resumed"]) == ("INCONCLUSIVE", [])
    assert site.drained == {"gpu1": "busbar: new"}
    assert "delete ReservationName=busbar-new" in site.changes
    assert "delete ReservationName=busbar-validation" in site.changes
    assert not [*site.slurm.glob("reservation-*")]
    assert site.running() == []


# More than may be taken, three times as much in `scripts/test full`.
SIZE = 300_000_000 if int(os.environ.get("BUSBAR_TEST_DAMAGES", "0")) >= 10_000 else 100_000_000


def loud(size: int) -> str:
    """A script that prints so many bytes of what the library says of each connection, again and again."""
    line = "gpu1:100:2{0:05d} [{1}] NCCL INFO Channel {2:02d}/0 : {3}[0] -> {4}[0] [send] via NET/IB/{1}/GDRDMA"
    part = "\\n".join(line.format(n, n % 8, n % 32, n, n + 1) for n in range(1000))
    return f"python3 - <<'END'\nfor _ in range({size // len(part) + 1}):\n    print('{part}')\nEND"


def test_an_output_of_any_size_takes_no_memory(site: Site) -> None:
    most = []
    for script in ("", loud(SIZE * 102 // 100)):
        site.prints("cluster", nccl_text(NODES, 8, 365.0, program="all_reduce"), script)
        _pid, status, used = os.wait4(site.start(stages=["cluster"]).pid, 0)
        assert status == 0, site.said
        assert site.report["verdict"] == "PASS", site.report["reason"]
        # Of ansible-playbook and all that it started, in kB.
        most.append(used.ru_maxrss)
    assert (site.latest / "cluster.out").stat().st_size > SIZE
    # A second one of the same second has a folder of its own.
    assert sorted(path.name for path in site.latest.parent.iterdir()) == [
        "20261120T000000Z",
        "20261120T000000Z-2",
        "latest",
    ]
    assert most[1] - most[0] < 64 << 10, most


def test_an_output_without_end_is_cut_and_judged_by_nobody(site: Site) -> None:
    site.prints("cluster", nccl_text(NODES, 8, 365.0, program="all_reduce"), loud(30_000_000))
    site.validate(stages=["cluster"], output_limit="20M")
    (test,) = site.report["tests"]
    assert (test["verdict"], test["reason"]) == (
        "INCONCLUSIVE",
        "the output is longer than 20M (validation_output_limit)",
    )
    assert (site.latest / "cluster.out").stat().st_size == 20 << 20
    assert list(site.out.iterdir()) == []


@pytest.mark.parametrize(("how", "verdict"), [("finding", "PASS"), ("fail", "FAIL")])
def test_what_was_faster_in_earlier_reports_is_told_or_fails(site: Site, how: str, verdict: str) -> None:
    tests = [{"name": f"node-{node}", "stage": "node", "nodes": [node], "peak": 475.0} for node in NODES]
    for day in range(10, 15):
        place = site.folder / "reports" / f"202611{day}T080000Z"
        place.mkdir(parents=True)
        data = validation(tests, started=f"2026-11-{day}T08:00:00Z")
        (place / "report.json").write_text(json.dumps(data), encoding="utf-8")
    site.prints("node-gpu1", nccl_text(["gpu1"], 8, 440.0, program="all_reduce"))
    said = site.validate(stages=["node"], floor_gbs=400, drift=how)
    found = site.report
    assert found["verdict"] == verdict, said
    assert [item["name"] for item in found["drift"]] == ["node-gpu1"]
    slow = next(test for test in found["tests"] if test["name"] == "node-gpu1")
    assert slow["findings"][-1].startswith("drift: 440 GB/s is 7.4 % below its own median of 5 earlier passes, 475")
    assert [culprit["nodes"] for culprit in found.get("culprits", [])] == ([["gpu1"]] if how == "fail" else [])
