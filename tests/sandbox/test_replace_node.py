"""Tests of a new machine with the name of a node: trusted by all, validated, with the node's history."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import QUICK, as_json, recap
from test_health import RECORDING, recording
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm", "ssh")

NODE, OTHER = "gpu2", "gpu1"
KEY = "cat /etc/ssh/ssh_host_ed25519_key.pub"
# Only the node test: the tests of add_nodes cover the choice of partners.
ALONE = (*QUICK, "-e", "validation_stages=node")
# Different in each run, also on an existing sandbox.
SERIAL = f"another-machine-{os.getpid()}"
SHOWN = re.compile(r"ssh-ed25519 (SHA256:[\w+/]{43})")


def replace(sandbox: Cluster, *options: str, node: str = NODE) -> subprocess.CompletedProcess[str]:
    """Run the playbook."""
    words = ("provision", "replace_node", "-i", str(sandbox.inventory), "-e", f"replace_node={node}")
    return sandbox.busbar(*words, *options)


def refused(sandbox: Cluster, said: str, *options: str, node: str = NODE, code: int = 2) -> str:
    """Check that the run is refused with this error and changes nothing; return its output."""
    done = replace(sandbox, *options, node=node)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in " ".join(done.stdout.split()), done.stdout
    return done.stdout


def dossier(sandbox: Cluster) -> dict[str, Any]:
    """Return the dossier of the node."""
    done = sandbox.busbar("node", "show", NODE, "--name", sandbox.name, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = as_json(done.stdout)
    return found


@pytest.fixture
def resumed(sandbox: Cluster) -> Iterator[None]:
    """Resume the node after the test."""
    sandbox.wait_idle()
    yield
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=RESUME", check=False)
    sandbox.wait_idle()


@pytest.mark.parametrize(
    ("node", "options", "said"),
    [
        ("ctl", (), "ctl is in the group slurm_controller, whose services run on this machine"),
        ("gpu22", (), "not a compute node of the inventory; did you mean gpu2?"),
        (NODE, ("-e", "replace_node_fingerprint=SHA256:short"), "'SHA256:short' is not a fingerprint"),
    ],
)
def test_invalid_replacement_is_refused(sandbox: Cluster, node: str, options: tuple[str, ...], said: str) -> None:
    text = refused(sandbox, said, *options, node=node)
    assert all(counts["changed"] == 0 for counts in recap(text).values())
    assert set(sandbox.node_states().values()) == {"idle"}


@pytest.mark.usefixtures("resumed")
def test_jobs_are_waited_for_and_never_cancelled(sandbox: Cluster) -> None:
    job = submit(sandbox, f"-w {NODE} --mem=64 -o /dev/null", "sleep 900")
    wait_for_state(sandbox, job, "RUNNING")
    try:
        refused(sandbox, f"{NODE}: job {job} of alice on {NODE}, after 0 s. No job was cancelled", code=1)
        wait_for_state(sandbox, job, "RUNNING")
        assert sandbox.node_states()[NODE] == "drng"
    finally:
        sandbox.exec("login", f"scancel {job}", user="alice")


@pytest.mark.usefixtures("resumed")
def test_old_machine_is_distinguished_from_a_new_one(sandbox: Cluster) -> None:
    before = dossier(sandbox)["changes"]
    refused(sandbox, "it is still the old machine: its host key is already recorded")
    assert sandbox.node_states()[NODE] == "drain"
    assert dossier(sandbox)["changes"] == before


@pytest.mark.usefixtures("resumed")
def test_check_mode_shows_the_changes_for_a_node_in_service(sandbox: Cluster) -> None:
    before = dossier(sandbox)["changes"]
    done = replace(sandbox, "--check", "-e", "replace_node_same_machine=true", *ALONE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"New nodes: {NODE}" in done.stdout
    assert sandbox.node_states()[NODE] == "idle"
    assert dossier(sandbox)["changes"] == before


@pytest.mark.usefixtures("resumed")
def test_machine_that_does_not_match_its_profile_is_refused(sandbox: Cluster) -> None:
    before = dossier(sandbox)["changes"]
    started = sandbox.exec(NODE, "systemctl show -p InvocationID --value slurmd").stdout
    sandbox.exec(NODE, recording(gpu_recording(NODE, 1)))
    try:
        text = refused(sandbox, "1 found", "-e", "replace_node_same_machine=true", *ALONE)
    finally:
        sandbox.exec(NODE, recording(gpu_recording(NODE, 2)))
    assert {host: counts["changed"] for host, counts in recap(text).items() if counts["changed"]} == {"ctl": 1}
    assert sandbox.exec(NODE, "systemctl show -p InvocationID --value slurmd").stdout == started
    assert dossier(sandbox)["changes"] == before


def test_new_machine_takes_over_the_name(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    validations = len(dossier(sandbox)["validations"])
    former = " ".join(sandbox.exec(NODE, KEY).stdout.split()[:2])
    output = f"/shared/home/alice/counted-{sandbox.name}"
    job = submit(
        sandbox, f"-w {OTHER} --mem=64 -o {output}", "for second in $(seq 900); do echo $second; sleep 1; done"
    )
    wait_for_state(sandbox, job, "RUNNING")
    try:
        known = sandbox.state / "ssh" / "known_hosts"
        trusted = known.read_text()
        swap(sandbox)
        present = " ".join(sandbox.exec(NODE, KEY).stdout.split()[:2])
        assert present != former
        # The sandbox recorded the new host key itself, which a real site would not do.
        known.write_text(trusted)
        told = refused(sandbox, "its host key is unknown")
        shown = SHOWN.search(" ".join(told.split()))
        assert shown, told
        own = sandbox.exec(NODE, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").stdout
        assert shown[1] in own
        wrong = f"replace_node_fingerprint=SHA256:{'A' * 43}"
        refused(sandbox, "no host key matches", "-e", wrong)
        done = replace(sandbox, "-e", f"replace_node_fingerprint={shown[1]}", *ALONE)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Verdict: PASS" in done.stdout
        # It is not admitted after a test alone: the only other node runs a job.
        assert sandbox.node_states()[NODE].startswith("drain")
        assert "busbar: new" in sandbox.exec("ctl", "sinfo -R -h -o %E").stdout
        assert dossier(sandbox)["changes"][-1]["event"] == "replaced"
        wait_for_state(sandbox, job, "RUNNING")
        counted = [int(line) for line in sandbox.exec("login", f"cat {output}").stdout.split()]
        assert counted == list(range(1, len(counted) + 1))
    finally:
        sandbox.exec("login", f"scancel {job}", user="alice")
        up(sandbox)
    done = replace(sandbox, *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    sandbox.wait_until(lambda: sandbox.node_states()[NODE] == "idle", f"not in service: {sandbox.node_states()}")
    for node in ("ctl", "login", OTHER, NODE):
        trust = sandbox.exec(node, "cat /etc/ssh/ssh_known_hosts").stdout
        assert f"@revoked * {former}" in trust
        assert present not in trust
    for other in ("login", OTHER):
        there = f"salloc --quiet -w {NODE} -n1 --mem=64 ssh -o BatchMode=yes {NODE} hostname"
        assert sandbox.exec(other, there, user="alice").stdout.strip() == NODE
    found = dossier(sandbox)
    replaced, admitted = found["changes"][-2:]
    assert (replaced["event"], admitted["event"]) == ("replaced", "admitted")
    assert replaced["serial_after"].removeprefix("GPU-") == SERIAL
    assert replaced["serial_before"] not in {"", replaced["serial_after"]}
    assert len(found["validations"]) == validations + 2
    assert found["score"]["since"] == replaced["at"]


def swap(sandbox: Cluster) -> None:
    """Replace the node by a machine with other host keys and serial numbers."""
    subprocess.run(["podman", "rm", "--force", "--time=0", sandbox.container(NODE)], check=True, capture_output=True)
    up(sandbox)
    sandbox.exec(NODE, recording(re.sub(rf"simulated-{NODE}-\d", SERIAL, gpu_recording(NODE, 2))))
    sandbox.exec(NODE, f"test -s {RECORDING}")
    sandbox.wait_for_new_machine(NODE)


def up(sandbox: Cluster) -> None:
    """Create the missing nodes."""
    done = sandbox.busbar("sandbox", "up", "--name", sandbox.name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_new_machine_is_recorded_as_the_current_one(sandbox: Cluster) -> None:
    try:
        refused(sandbox, "it is still the old machine")
    finally:
        sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=RESUME", check=False)
        sandbox.wait_idle()
