"""Tests of the node dossier from all sources, and of the list of repeatedly failing nodes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import as_json
from test_health import LOST, PROGRAM, RECORDING, recording
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("node_health", "slurm", "validation")

NODE = "gpu2"


def show(sandbox: Cluster, *options: str, code: int = 0) -> dict[str, Any]:
    """Return the dossier of the node."""
    done = sandbox.busbar("node", "show", NODE, "--name", sandbox.name, "--format", "json", *options)
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = as_json(done.stdout)
    return found


@pytest.fixture(scope="module")
def failed(sandbox: Cluster) -> str:
    """Create a job that failed because its node went down, after the health check had drained and resumed the node."""
    sandbox.wait_idle()
    try:
        sandbox.exec(NODE, recording(LOST.replace("gpu1", NODE)))
        sandbox.exec(NODE, PROGRAM)
        sandbox.exec(NODE, recording(gpu_recording(NODE, 2)))
        sandbox.exec(NODE, f"{PROGRAM} && {PROGRAM}")
        sandbox.wait_idle()
        job = submit(sandbox, f"-w {NODE} --mem=100 --no-requeue -o /dev/null", "sleep 600")
        wait_for_state(sandbox, job, "RUNNING")
        sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=DOWN Reason='the power supply smells'")
        ended = f"sacct -n -X -j {job} -o State"
        sandbox.wait_until(lambda: "NODE_FAIL" in sandbox.exec("ctl", ended).stdout, "the job does not fail")
    finally:
        sandbox.exec(NODE, f"test -s {RECORDING}")
        sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=RESUME", check=False)
        sandbox.wait_idle()
    return job


def test_dossier_combines_all_sources(sandbox: Cluster, failed: str) -> None:
    found = show(sandbox)
    assert found["not_known"] == {}
    assert found["slurm"]["state"] == "idle"
    assert {part["serial"] for part in found["machine"]["parts"]} >= {f"simulated-{NODE}-0", f"simulated-{NODE}-1"}
    assert found["machine"]["source"] == "the node"
    assert found["versions"]["kernel"]
    reasons = {each["reason"]: each for each in found["drains"]}
    lost = next(reason for reason in reasons if reason.startswith("busbar health: GPU 1 "))
    assert (reasons[lost]["by"], reasons[lost]["until"] is None) == ("root", False)
    assert reasons["the power supply smells"]["state"] == "DOWN"
    told = [(each["event"], each.get("check")) for each in found["health"]]
    at = told.index(("found", "gpu"))
    assert told[at : at + 2] == [("found", "gpu"), ("drain", None)]
    assert ("cleared", "gpu") in told
    assert ("resume", None) in told
    job = next(each for each in found["jobs"] if each["job"] == failed)
    assert (job["state"], job["user"], job["by_node"]) == ("NODE_FAIL", "alice", True)
    validated = [each for each in found["validations"] if each["of_node"] == "PASS"]
    assert validated
    assert validated[-1]["tests"]
    signals = found["score"]["signals"]
    assert signals["single_node_node_fails"]["count"] >= 1
    assert signals["out_count"]["count"] >= 2
    text = sandbox.busbar("node", "show", NODE, "--name", sandbox.name).stdout
    assert "the power supply smells [root]" in text
    assert f"{failed} of alice  NODE_FAIL" in text


@pytest.mark.usefixtures("failed")
def test_all_nodes_are_shown_with_repeatedly_failing_nodes(sandbox: Cluster) -> None:
    done = sandbox.busbar("node", "list", "--name", sandbox.name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == sandbox.compute
    # Queries only the controller, and no node.
    assert "Read states, times out of service and failed jobs  ok=1" in done.stderr
    assert "Read the numbers" not in done.stderr
    points = {each["node"]: each["score"]["points"] for each in listed(sandbox)["nodes"]}
    assert points[NODE] == show(sandbox)["score"]["points"] >= 4
    limit = str(points[NODE])
    done = sandbox.busbar("node", "list", "--lemons", "--lemon-limit", limit, "--name", sandbox.name)
    assert done.returncode == 1
    assert "single-node jobs that failed because of the node: " in done.stdout
    done = sandbox.busbar("node", "list", "--lemons", "--lemon-limit", "99", "--name", sandbox.name)
    assert (done.returncode, done.stdout) == (0, "no node has a lemon score of 99 or more\n")


def listed(sandbox: Cluster) -> dict[str, Any]:
    """Return all nodes as data."""
    found: dict[str, Any] = as_json(sandbox.busbar("node", "list", "--name", sandbox.name, "--format", "json").stdout)
    return found


def test_unreachable_node_and_damaged_report(sandbox: Cluster, faults: Callable[..., None], tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    shutil.copytree(sandbox.state / "reports", reports, symlinks=True)
    (reports / "20260101T000000Z").mkdir()
    (reports / "20260101T000000Z" / "report.json").write_text("{")
    faults("pull", NODE)
    found = show(sandbox, "--reports", str(reports), code=3)
    assert set(found["not_known"]) == {NODE, "report 20260101T000000Z"}
    assert found["health"] is None
    assert found["validations"]
    # Its reports identify the machine.
    assert found["machine"]["source"].startswith("report 20")
    assert found["drains"] is not None


def test_unknown_node_is_refused(sandbox: Cluster) -> None:
    done = sandbox.busbar("node", "show", "gpu22", "--name", sandbox.name)
    assert done.returncode == 2
    assert "gpu22: not a compute node of the inventory" in done.stderr
    assert "did you mean gpu2?" in done.stderr
