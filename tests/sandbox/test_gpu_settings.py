"""Tests of GPU settings, applied to a node's simulated GPUs and read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpu_settings_parse import settings_found
from conftest import recap

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from conftest import Cluster

    Apply = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.proves("gpu_settings")

NODE = "gpu1"
WANTED = {"persistence": True, "power_limit_w": 300, "graphics_clocks_mhz": [210, 1050], "ecc": False}
LEFT = (
    "/etc/busbar/gpu_settings.conf /usr/local/lib/busbar/gpu_settings_boot /run/busbar/gpu_clocks "
    "/etc/systemd/system/busbar-gpu-settings.service /run/simulated-gpus.xml"
)


@pytest.fixture
def apply(sandbox: Cluster) -> Iterator[Apply]:
    """Return a function that runs the role with settings of the host; the node is restored after the test."""

    def run(settings: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        values = json.dumps({"gpu_settings_values": settings})
        return sandbox.playbook("nvidia.yml", "--limit", NODE, "--tags", "gpu_settings", "-e", values, *options)

    sandbox.exec(NODE, "cp -p /etc/simulated-gpus.xml /root/simulated-gpus.sound")
    yield run
    sandbox.exec("ctl", "scancel --user=alice")
    sandbox.exec(NODE, "systemctl disable --now busbar-gpu-settings", check=False)
    sandbox.exec(NODE, f"rm -f {LEFT}; mv /root/simulated-gpus.sound /etc/simulated-gpus.xml; systemctl daemon-reload")
    sandbox.wait_idle()


def found(sandbox: Cluster) -> dict[str, Any]:
    """Return the settings of the second GPU."""
    return settings_found(sandbox.exec(NODE, "nvidia-smi -q -x").stdout)[1]


@pytest.mark.scenario
def test_settings_are_shown_applied_and_kept_after_a_boot(sandbox: Cluster, apply: Apply) -> None:
    shown = apply(WANTED, "--check", "--diff")
    assert "-GPU 1: power_limit_w: 400 W" in shown.stdout
    assert "+GPU 1: power_limit_w: 300 W" in shown.stdout
    assert recap(shown.stdout)[NODE]["changed"] == 2, shown.stdout
    assert found(sandbox)["power"]["now"] == 400

    done = apply(WANTED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ECC off of GPU 0,1 is not active until a reboot" in done.stdout
    assert (found(sandbox)["power"]["now"], found(sandbox)["ecc"], found(sandbox)["ecc_pending"]) == (300, True, False)

    # After a reboot the GPUs have lost their settings, the ECC change is active, and the unit starts.
    sandbox.exec(NODE, "rm /run/simulated-gpus.xml /run/busbar/gpu_clocks; systemctl start busbar-gpu-settings")
    assert (found(sandbox)["power"]["now"], found(sandbox)["ecc"]) == (300, False)
    assert sandbox.exec(NODE, "systemctl is-enabled busbar-gpu-settings").stdout == "enabled\n"
    again = apply(WANTED)
    assert recap(again.stdout)[NODE]["changed"] == 0, again.stdout
    assert "not active until a reboot" not in again.stdout


def test_unsupported_values_are_refused_before_any_change(sandbox: Cluster, apply: Apply) -> None:
    done = apply({"power_limit_w": 900, "graphics_clocks_mhz": 3000})
    assert done.returncode
    assert recap(done.stdout)[NODE]["changed"] == 0
    said = " ".join(done.stdout.split())
    assert "GPU 0,1: power_limit_w: 900 W: the GPU supports 100 to 500 W" in said
    assert "graphics_clocks_mhz: 3000 MHz: the GPU supports 210 to 1410 MHz" in said
    assert f"fatal: [{NODE}]" in said
    assert not sandbox.host(NODE).file("/etc/busbar/gpu_settings.conf").exists

    refused = sandbox.playbook("preflight.yml", "-e", '{"gpu_settings_values": {"fan": 3}}')
    assert refused.returncode
    assert f"gpu[1-{len(sandbox.compute)}]: gpu_settings_values: fan: unknown setting" in refused.stdout


def test_running_job_is_not_disturbed(sandbox: Cluster, apply: Apply) -> None:
    sandbox.exec(NODE, "nvidia-smi -pm 0")
    job = sandbox.exec(
        "login", f"sbatch --parsable -w {NODE} -o /dev/null --wrap 'sleep 300'", user="alice"
    ).stdout.strip()
    sandbox.wait_until(
        lambda: sandbox.exec("ctl", f"squeue -h -j {job} -o %T").stdout == "RUNNING\n", "the job does not start"
    )
    done = apply(WANTED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"power_limit_w: running jobs would be affected: {job}" in " ".join(done.stdout.split())
    assert (found(sandbox)["persistence"], found(sandbox)["power"]["now"]) == (True, 400)
    refused = apply(WANTED, "-e", "gpu_settings_busy=refuse")
    assert refused.returncode
    assert "Nothing was changed" in refused.stdout
