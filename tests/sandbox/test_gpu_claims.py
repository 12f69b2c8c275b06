"""Tests of the preflight's comparison of GPUs with the hardware profile; each node replays its own recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import profile_problems
from busbar.sandbox.recording import gpu_recording
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight")

RECORDING = "/etc/simulated-gpus.xml"
NODE = "gpu2"
LOST = gpu_recording(NODE, 2).replace("<total>1024 MiB</total>", "<total>GPU is lost</total>")
LOST = LOST.replace("<total>GPU is lost</total>", "<total>1024 MiB</total>", 1)


@pytest.fixture
def replay(sandbox: Cluster) -> Iterator[Callable[[str], None]]:
    """Make a node replay another recording during the test."""

    def write(text: str) -> None:
        sandbox.exec(NODE, f"cat > {RECORDING} <<'END'\n{text}END\n")

    sandbox.exec(NODE, f"cp -p {RECORDING} {RECORDING}.sound")
    yield write
    sandbox.exec(NODE, f"mv {RECORDING}.sound {RECORDING}; rm -f /usr/local/sbin/nvidia-smi")


def preflight(sandbox: Cluster, *options: str) -> tuple[int, str]:
    """Run the preflight and check that it changes nothing."""
    done = sandbox.busbar("provision", "preflight", "-i", str(sandbox.inventory), *options)
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values()), done.stdout
    return done.returncode, done.stdout


def test_healthy_gpus_pass(sandbox: Cluster) -> None:
    code, output = preflight(sandbox)
    assert code == 0, output
    assert "Ask the nodes that shall have GPUs what they have" in output


@pytest.mark.parametrize(
    ("recording", "problem", "remedy"),
    [
        (
            LOST,
            f"{NODE}: GPU 1 (ffff:02:00.0, serial simulated-{NODE}-1): is lost: the driver cannot reach it",
            "drain the node and reboot it; if it is lost again (dmesg: Xid 79), have the board replaced",
        ),
        (
            gpu_recording(NODE, 1),
            f"{NODE}: GPUs: 2 declared, 1 found: 0 at ffff:01:00.0",
            "look for Xid and NVRM in dmesg and for the board in lspci",
        ),
        (
            gpu_recording(NODE, 2).replace("Simulated GPU", "NVIDIA A40"),
            f"{NODE}: all 2 GPUs: wrong model (found NVIDIA A40, expected Simulated GPU)",
            "correct the hardware profile of the host, or install the declared boards",
        ),
    ],
    ids=["lost", "one of two", "another model"],
)
def test_gpu_fault_stops_the_run_before_any_change(
    sandbox: Cluster, replay: Callable[[str], None], recording: str, problem: str, remedy: str
) -> None:
    replay(recording)
    code, output = preflight(sandbox)
    assert code == 2, output
    assert problem in output
    assert f"remedy: {remedy}" in output
    assert "gpu1" not in output[output.index("FAILED ") : output.index("Slowest tasks:")]
    assert preflight(sandbox, "-e", "preflight_gpu=false")[0] == 0


@pytest.mark.usefixtures("replay")
def test_hanging_nvidia_smi_does_not_block_the_run(sandbox: Cluster) -> None:
    sandbox.exec(
        NODE, "printf '#!/bin/sh\\nsleep 600\\n' > /usr/local/sbin/nvidia-smi; chmod +x /usr/local/sbin/nvidia-smi"
    )
    code, output = preflight(sandbox, "-e", "__preflight_gpu_timeout_s=2")
    assert code == 2, output
    assert f"{NODE}: nvidia-smi: fails: nvidia-smi did not answer in 2 s" in output
    assert "look for Xid in dmesg, then reboot the node" in output


def test_describe_prints_a_hardware_profile(sandbox: Cluster) -> None:
    done = sandbox.busbar("inventory", "describe", "gpu[1-2]", "-i", str(sandbox.inventory))
    assert done.returncode == 0, done.stderr
    assert "  # gpu[1-2]\n  # nearest known profile: sandbox_gpu, with these differences:\n" in done.stdout
    assert "  # slurmd -C: " in done.stdout
    ((name, profile),) = yaml.safe_load(done.stdout)["hardware_profiles_extra"].items()
    assert (name, profile["gpu"]["model"], profile["gpu"]["count"]) == ("simx2", "Simulated GPU", 2)
    assert profile_problems(name, profile) == []


def test_describe_reports_an_unknown_machine(sandbox: Cluster) -> None:
    done = sandbox.busbar("inventory", "describe", "nobody", "-i", str(sandbox.inventory))
    assert done.returncode == 2
    assert done.stderr.endswith(".log\n")
    assert "does not contain nobody" in done.stderr
