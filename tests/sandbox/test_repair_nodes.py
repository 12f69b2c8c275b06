"""Nodes that the health check has drained are repaired, checked, validated and resumed; at most twice in a week."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import QUICK
from test_health import LOST, recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("node_health")

CHECK, HISTORY = "/usr/local/lib/busbar/node_health", "/var/lib/busbar/repairs.jsonl"
REBOOT, BOOTS, RECORDING = "/usr/local/sbin/simulated-reboot", "/run/simulated-boots", "/etc/simulated-gpus.xml"
# The reboot cures the GPU. A container that goes down takes the other containers' cgroups with it on some hosts.
SCRIPT = f"""#!/bin/sh
cp {RECORDING}.sound {RECORDING}
rm -f /var/lib/busbar/node_health/state.json
systemctl restart slurmd
date +%s%N >>{BOOTS}
"""


@pytest.fixture(autouse=True)
def broken(sandbox: Cluster) -> Iterator[None]:
    """On gpu1 a GPU is lost, and the health check has drained it; somebody has drained gpu2."""
    sandbox.exec("ctl", f"rm -f {HISTORY}")
    sandbox.exec("gpu1", f"cat >{REBOOT} <<'END'\n{SCRIPT}END\nchmod +x {REBOOT}; date +%s%N >{BOOTS}")
    sandbox.exec("gpu1", f"cp {RECORDING} {RECORDING}.sound")
    sandbox.exec("gpu1", recording(LOST))
    sandbox.exec("gpu1", CHECK)
    sandbox.exec("ctl", "scontrol update nodename=gpu2 state=drain reason='fan, Meyer'")
    yield
    sandbox.exec("gpu1", recording(gpu_recording("gpu1", 2)))
    sandbox.exec("gpu1", f"rm -rf {RECORDING}.sound {BOOTS} {REBOOT} /var/lib/busbar/node_health")
    sandbox.exec("ctl", f"rm -f {HISTORY}; scontrol update nodename=gpu1,gpu2 state=resume", check=False)
    sandbox.wait_idle()


def repair(sandbox: Cluster, *arguments: str) -> tuple[int, str]:
    """Run the repair; exit code and what was said, on one line."""
    options = (f"nvidia_driver_reboot_command={REBOOT}", f"nvidia_driver_boot_time_command='cat {BOOTS}'")
    given = [word for option in options for word in ("-e", option)]
    done = sandbox.playbook("repair_nodes.yml", *given, *QUICK, *arguments)
    return done.returncode, " ".join(f"{done.stdout} {done.stderr}".split())


def reason(sandbox: Cluster, node: str) -> str:
    return sandbox.exec("ctl", f"sinfo -h -n {node} -o '%t|%E'").stdout.strip()


def events(sandbox: Cluster) -> list[tuple[str, str]]:
    """Nodes and events of the history."""
    lines = sandbox.exec("ctl", f"cat {HISTORY}").stdout.splitlines()
    return [(each["node"], each["event"]) for each in map(json.loads, lines)]


def test_a_node_is_repaired_and_after_two_repairs_given_up(sandbox: Cluster) -> None:
    assert reason(sandbox, "gpu1").startswith("drain|busbar health:")
    code, said = repair(sandbox)
    assert code == 0, said
    assert reason(sandbox, "gpu1") == "idle|none"
    assert reason(sandbox, "gpu2") == "drain|fan, Meyer"
    assert events(sandbox) == [("gpu1", "began"), ("gpu1", "repaired")]
    assert len(sandbox.exec("gpu1", f"cat {BOOTS}").stdout.split()) == 2
    # As if it had been repaired twice: the next fault is not answered by a third.
    sandbox.exec("ctl", f"head -1 {HISTORY} >{HISTORY}.more; cat {HISTORY}.more >>{HISTORY}; rm {HISTORY}.more")
    sandbox.exec("gpu1", recording(LOST))
    sandbox.exec("gpu1", CHECK)
    code, said = repair(sandbox)
    assert code == 0, said
    assert reason(sandbox, "gpu1").startswith("drain|busbar health: ISOLATE 2 repairs in 7 days did not last")
    assert events(sandbox)[-1] == ("gpu1", "isolated")
    assert len(sandbox.exec("gpu1", f"cat {BOOTS}").stdout.split()) == 2
    # Sound again or not, the health check does not give it back.
    sandbox.exec("gpu1", f"cp {RECORDING}.sound {RECORDING}; {CHECK}; {CHECK}; {CHECK}")
    assert "ISOLATE" in reason(sandbox, "gpu1")
