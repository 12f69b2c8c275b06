"""Slurm looks at its nodes, and drains one that lost a GPU, whose nvidia-smi hangs or whose disk is full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import recap
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("node_health")

NODE = "gpu1"
FOLDER = "/usr/local/lib/busbar"
PROGRAM = f"{FOLDER}/node_health"
RECORDING = "/etc/simulated-gpus.xml"
SOUND, LOST_MEMORY = "<total>1024 MiB</total>", "<total>GPU is lost</total>"
LOST = LOST_MEMORY.join(gpu_recording(NODE, 2).rsplit(SOUND, 1))
LOST_REASON = (
    f"busbar health: GPU 1 (ffff:02:00.0, serial simulated-{NODE}-1) is lost: the driver cannot reach it any more"
)


def reason(sandbox: Cluster) -> str:
    """Why the node is out of service, with who said so and when."""
    shown = sandbox.exec("ctl", f"scontrol show node {NODE}").stdout
    return next((line.strip() for line in shown.splitlines() if line.strip().startswith("Reason=")), "")


def have_controller(sandbox: Cluster, *options: str) -> None:
    """Bring the site's options into force on the controller."""
    done = sandbox.playbook("slurm.yml", "--limit", "ctl", "--tags", "slurm_controller", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recap(done.stdout)["ctl"]["changed"] > 0


@pytest.fixture(scope="module", autouse=True)
def watched(sandbox: Cluster) -> Iterator[None]:
    """Let Slurm look every two seconds."""
    have_controller(sandbox, "-e", "node_health_interval=2")
    yield
    have_controller(sandbox)
    sandbox.wait_idle()


@pytest.fixture
def settings(sandbox: Cluster) -> Iterator[Callable[..., None]]:
    """Change what the node should have, or what its nvidia-smi replays; all is as before when the test ends."""
    former = sandbox.exec(NODE, f"cat {PROGRAM}.json").stdout

    def change(**changes: object) -> None:
        declared: dict[str, Any] = json.loads(former) | changes
        sandbox.exec(NODE, f"cat > {PROGRAM}.json.new <<'END'\n{json.dumps(declared)}\nEND\n")
        sandbox.exec(NODE, f"mv {PROGRAM}.json.new {PROGRAM}.json")

    sandbox.exec(NODE, f"cp -p {RECORDING} {RECORDING}.sound; cp -p {PROGRAM}.json {PROGRAM}.json.former")
    yield change
    sandbox.exec(NODE, f"mv {RECORDING}.sound {RECORDING}; rm -f /usr/local/sbin/nvidia-smi")
    sandbox.exec(NODE, f"mv {PROGRAM}.json.former {PROGRAM}.json; rm -f /var/lib/busbar/node_health/drained")
    # A look that began before would drain the node once more.
    sandbox.wait_until(lambda: sandbox.exec(NODE, f"pgrep -f {PROGRAM}$", check=False).stdout == "", "looks do not end")
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=RESUME", check=False)
    sandbox.wait_idle()


def replay(sandbox: Cluster, text: str) -> None:
    """Let the node's nvidia-smi say something else from now on, all at once."""
    sandbox.exec(NODE, f"cat > {RECORDING}.new <<'END'\n{text}END\nmv {RECORDING}.new {RECORDING}")


@pytest.mark.core
def test_a_lost_gpu_drains_its_node_while_the_job_goes_on(sandbox: Cluster, settings: Callable[..., None]) -> None:
    sandbox.wait_idle()
    job = submit(sandbox, f"-w {NODE} --mem=100 -o /dev/null", "sleep 300")
    try:
        wait_for_state(sandbox, job, "RUNNING")
        replay(sandbox, LOST)
        sandbox.wait_until(lambda: LOST_REASON in reason(sandbox), f"not drained: {reason(sandbox)}")
        assert sandbox.node_states() == {NODE: "drng", "gpu2": "idle"}
        told = reason(sandbox)

        # More that is wrong is shown, and the reason stays the first one.
        replay(sandbox, gpu_recording(NODE, 1))
        shown = sandbox.exec(NODE, f"{PROGRAM}; {PROGRAM} --look", check=False)
        assert shown.returncode == 1
        assert shown.stdout.splitlines() == ["GPUs: 2 declared, 1 found; these answer: 0 at ffff:01:00.0"] * 2
        assert reason(sandbox) == told

        # A sound node stays out until somebody says otherwise, or the site lets it come back by itself.
        replay(sandbox, gpu_recording(NODE, 2))
        assert sandbox.exec(NODE, f"{PROGRAM}; {PROGRAM} --look").stdout == ""
        assert reason(sandbox) == told
        settings(resume=True)
        sandbox.wait_until(lambda: sandbox.node_states()[NODE] == "mix", f"not resumed: {sandbox.node_states()}")
        assert reason(sandbox) == ""
        wait_for_state(sandbox, job, "RUNNING")
    finally:
        sandbox.exec("login", f"scancel {job}", user="alice")


def test_a_drain_of_an_admin_is_left_alone(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings(resume=True)
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=DRAIN Reason='new memory on Monday'")
    told = reason(sandbox)
    assert told.startswith("Reason=new memory on Monday [")
    replay(sandbox, LOST)
    sandbox.exec(NODE, PROGRAM)
    assert reason(sandbox) == told
    replay(sandbox, gpu_recording(NODE, 2))
    sandbox.exec(NODE, PROGRAM)
    assert reason(sandbox) == told


def test_an_nvidia_smi_that_hangs_drains_the_node(sandbox: Cluster, settings: Callable[..., None]) -> None:
    settings(timeout_s=1)
    sandbox.exec(NODE, "printf '#!/bin/sh\\nexec sleep 60\\n' > /usr/local/sbin/nvidia-smi.new")
    sandbox.exec(NODE, "cd /usr/local/sbin && chmod +x nvidia-smi.new && mv nvidia-smi.new nvidia-smi")
    said = "Reason=busbar health: nvidia-smi: fails: nvidia-smi did not answer in 1 s"
    sandbox.wait_until(lambda: reason(sandbox).startswith(said), f"not drained: {reason(sandbox)}")


def test_a_full_and_a_read_only_file_system_are_named(sandbox: Cluster, settings: Callable[..., None]) -> None:
    sandbox.exec("ctl", f"scontrol update NodeName={NODE} State=DRAIN Reason='a test of disks'")
    sandbox.exec(NODE, "mkdir -p /mnt/small /mnt/fixed && mount -t tmpfs -o size=1m tmpfs /mnt/small")
    sandbox.exec(NODE, "mount -t tmpfs -o ro tmpfs /mnt/fixed")
    settings(paths=["/", "/mnt/small", "/mnt/fixed"], free_mb=2)
    try:
        done = sandbox.exec(NODE, f"{PROGRAM} --look", check=False)
    finally:
        sandbox.exec(NODE, "umount /mnt/small /mnt/fixed && rmdir /mnt/small /mnt/fixed")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "/mnt/small is full: 1 MiB free, 2 are needed",
        "/mnt/fixed is read-only",
    ]
