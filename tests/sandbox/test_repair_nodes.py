"""Tests of the repair of drained nodes: repaired, checked, validated, resumed; at most twice a week."""

from __future__ import annotations

import concurrent.futures
import json
import time
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import QUICK
from fault_results import note
from faulted import is_said
from test_health import LOST, PENDING, recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("node_health")

CHECK, HISTORY = "/usr/local/lib/busbar/node_health", "/var/lib/busbar/repairs.jsonl"
NOW, CLIENT = "/run/simulated-gpus.xml", "/run/simulated-gpus.client"
# A fault that only a GPU reset clears.
TO_REMAP = f"{PENDING}<ecc_mode>".join(gpu_recording("gpu1", 2).rsplit("<ecc_mode>", 1))
REBOOT, BOOTS, RECORDING = "/usr/local/sbin/simulated-reboot", "/run/simulated-boots", "/etc/simulated-gpus.xml"
# The reboot repairs the GPU. It is simulated: on some hosts a stopping container removes the other containers' cgroups.
SCRIPT = f"""#!/bin/sh
cp {RECORDING}.sound {RECORDING}
rm -f {NOW} /var/lib/busbar/node_health/state.json
systemctl restart slurmd
date +%s%N >>{BOOTS}
"""


@pytest.fixture(autouse=True)
def broken(sandbox: Cluster) -> Iterator[None]:
    """Simulate a lost GPU on gpu1, which the health check drains, and let an admin drain gpu2."""
    sandbox.exec("ctl", f"rm -f {HISTORY}")
    sandbox.exec("gpu1", f"cat >{REBOOT} <<'END'\n{SCRIPT}END\nchmod +x {REBOOT}; date +%s%N >{BOOTS}")
    sandbox.exec("gpu1", f"cp {RECORDING} {RECORDING}.sound")
    sandbox.exec("gpu1", recording(LOST))
    sandbox.exec("gpu1", CHECK)
    sandbox.exec("ctl", "scontrol update nodename=gpu2 state=drain reason='fan, Meyer'")
    yield
    sandbox.exec("gpu1", recording(gpu_recording("gpu1", 2)))
    sandbox.exec("gpu1", f"rm -rf {NOW} {RECORDING}.sound {BOOTS} {REBOOT} /var/lib/busbar/node_health")
    sandbox.exec("ctl", f"rm -f {HISTORY}; scontrol update nodename=gpu1,gpu2 state=resume", check=False)
    sandbox.wait_idle()


def repair(sandbox: Cluster, *arguments: str) -> tuple[int, str]:
    """Run the repair; return exit code and output in one line."""
    options = (f"nvidia_driver_reboot_command={REBOOT}", f"nvidia_driver_boot_time_command='cat {BOOTS}'")
    given = [word for option in options for word in ("-e", option)]
    done = sandbox.playbook("repair_nodes.yml", *given, *QUICK, *arguments)
    return done.returncode, " ".join(f"{done.stdout} {done.stderr}".split())


def reason(sandbox: Cluster, node: str) -> str:
    return sandbox.exec("ctl", f"sinfo -h -n {node} -o '%t|%E'").stdout.strip()


def events(sandbox: Cluster) -> list[tuple[str, str]]:
    """Return nodes and events of the history."""
    return [(each["node"], each["event"]) for each in history(sandbox)]


def history(sandbox: Cluster) -> list[dict[str, str]]:
    """Return the history of repairs."""
    return [json.loads(line) for line in sandbox.exec("ctl", f"cat {HISTORY}").stdout.splitlines()]


def drained_for_a_row(sandbox: Cluster) -> None:
    """Make the health check drain gpu1 for a fault that a GPU reset clears."""
    sandbox.exec("gpu1", recording(TO_REMAP))
    sandbox.exec("gpu1", CHECK)
    assert "is pending remapping" in sandbox.exec("gpu1", f"{CHECK} --look", check=False).stdout


def boots(sandbox: Cluster) -> int:
    """Return the number of reboots of gpu1."""
    return len(sandbox.exec("gpu1", f"cat {BOOTS}").stdout.split()) - 1


def test_node_is_repaired_and_isolated_after_two_repairs(sandbox: Cluster) -> None:
    assert reason(sandbox, "gpu1").startswith("drain|busbar health:")
    code, said = repair(sandbox)
    assert code == 0, said
    assert reason(sandbox, "gpu1") == "idle|none"
    assert reason(sandbox, "gpu2") == "drain|fan, Meyer"
    assert events(sandbox) == [("gpu1", "began"), ("gpu1", "repaired")]
    assert len(sandbox.exec("gpu1", f"cat {BOOTS}").stdout.split()) == 2
    # Simulates two past repairs: the next fault must not cause a third.
    sandbox.exec("ctl", f"head -1 {HISTORY} >{HISTORY}.more; cat {HISTORY}.more >>{HISTORY}; rm {HISTORY}.more")
    sandbox.exec("gpu1", recording(LOST))
    sandbox.exec("gpu1", CHECK)
    code, said = repair(sandbox)
    assert code == 0, said
    assert reason(sandbox, "gpu1").startswith("drain|busbar health: ISOLATE 2 repairs in 7 days did not last")
    assert events(sandbox)[-1] == ("gpu1", "isolated")
    assert len(sandbox.exec("gpu1", f"cat {BOOTS}").stdout.split()) == 2
    # The health check does not resume the node, even if the fault is gone.
    sandbox.exec("gpu1", f"cp {RECORDING}.sound {RECORDING}; {CHECK}; {CHECK}; {CHECK}")
    assert "ISOLATE" in reason(sandbox, "gpu1")


def test_gpu_reset_repairs_without_a_reboot(sandbox: Cluster) -> None:
    drained_for_a_row(sandbox)
    asked = sandbox.exec("gpu1", "nvidia-smi --gpu-reset", check=False)
    assert (asked.returncode, "In use by another client" in asked.stdout) == (255, True)
    code, said = repair(sandbox, "-e", "node_health_repair=reset")
    assert code == 0, said
    assert reason(sandbox, "gpu1") == "idle|none"
    assert [(each["event"], each["how"]) for each in history(sandbox)] == [("began", "reset"), ("repaired", "reset")]
    assert boots(sandbox) == 0
    # Persistence mode, which kept the GPUs open, is enabled again.
    shown = sandbox.exec("gpu1", "nvidia-smi --query-gpu=index,persistence_mode --format=csv,noheader").stdout
    assert shown == "0, Enabled\n1, Enabled\n"


def test_gpus_in_use_are_not_reset(sandbox: Cluster) -> None:
    drained_for_a_row(sandbox)
    sandbox.exec("gpu1", f"touch {CLIENT}; systemd-run --unit=holder -p StandardInput=file:{CLIENT} sleep 900")
    try:
        code, said = repair(sandbox, "-e", "node_health_repair=reset")
        assert code == 2, said
        assert "the GPU reset did not fix the fault (found The following GPUs" in said
        assert "set node_health_repair to reboot" in said
        assert reason(sandbox, "gpu1").startswith("drain|busbar health: repair failed: ")
        assert boots(sandbox) == 0
        # By default, a reboot follows if the reset fails.
        code, said = repair(sandbox)
        assert code == 0, said
        assert [(each["event"], each["how"]) for each in history(sandbox)[-2:]] == [
            ("began", "reset"),
            ("repaired", "reboot"),
        ]
        assert boots(sandbox) == 1
    finally:
        sandbox.exec("gpu1", f"systemctl stop holder; rm -f {CLIENT}", check=False)


def test_user_may_not_reset_gpus(sandbox: Cluster) -> None:
    asked = sandbox.exec("gpu1", "nvidia-smi --gpu-reset", user="alice", check=False)
    assert (asked.returncode, asked.stdout.strip()) == (4, "Insufficient Permissions")


@pytest.mark.fault(
    "a node that loses its power during its repair",
    says="gpu1 stays drained: became unreachable: power it on",
    heals="power the node on; the next repair finishes it",
)
def test_node_that_loses_power_is_reported_and_repaired_by_the_next_run(sandbox: Cluster) -> None:
    # The node reboots, but its health check never finishes.
    begun = "/run/check.begun"
    held = f"#!/bin/sh\ntouch {begun}; exec sleep 300\n"
    stops = f"mv {CHECK} {CHECK}.sound; cat >{CHECK} <<'STOP'\n{held}STOP\nchmod +x {CHECK}\n"
    sandbox.exec("gpu1", f"cat >{REBOOT} <<'END'\n{SCRIPT}{stops}END\nchmod +x {REBOOT}")
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            run = pool.submit(repair, sandbox)
            reached = f"test -e {begun}"
            sandbox.wait_until(lambda: sandbox.exec("gpu1", reached, check=False).returncode == 0, "no check", 180)
            cut = time.monotonic()
            sandbox.fault("pull", "gpu1")
            code, said = run.result(timeout=600)
        told_s = round(time.monotonic() - cut)
    finally:
        sandbox.fault("heal")
        sandbox.exec("gpu1", f"rm -f {begun}; [ ! -e {CHECK}.sound ] || mv {CHECK}.sound {CHECK}")
        sandbox.exec("gpu1", f"cat >{REBOOT} <<'END'\n{SCRIPT}END\nchmod +x {REBOOT}; date +%s%N >{BOOTS}")
    assert code != 0
    assert "fatal: [gpu1]: UNREACHABLE!" in said, said
    assert is_said("gpu1 stays drained: became unreachable: power it on", said), said
    assert "|busbar health: repair failed: became unreachable" in reason(sandbox, "gpu1")
    assert events(sandbox) == [("gpu1", "began"), ("gpu1", "failed")]
    assert reason(sandbox, "gpu2") == "drain|fan, Meyer"
    sandbox.wait_until(lambda: reason(sandbox, "gpu1").startswith("drain|"), "it does not answer", 120)
    sandbox.exec("gpu1", recording(LOST))
    began = time.monotonic()
    code, said = repair(sandbox)
    assert code == 0, said
    healed_s = round(time.monotonic() - began)
    assert reason(sandbox, "gpu1") == "idle|none"
    assert events(sandbox)[-1] == ("gpu1", "repaired")
    note("runs", "a node that loses its power during its repair", {"told_s": told_s, "healed_s": healed_s})
