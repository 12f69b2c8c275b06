"""Tests of MIG instances on simulated GPUs, and of Slurm's ways to detect a node's GPUs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from busbar.sandbox.recording import gpu_recording
from conftest import TOP, recap
from simulated_gpus import SIMULATED_A100

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Cluster

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.proves("mig")

NODE = "gpu1"
CAPS = "/dev/nvidia-caps/nvidia-cap"
LAYOUT = [{"profile": "1g.5gb", "count": 7, "gpus": [0]}]
LEFT = (
    "/etc/busbar/mig.conf /usr/local/lib/busbar/mig_boot /etc/systemd/system/busbar-mig.service "
    "/usr/local/lib/busbar/mig_devices.py /run/simulated-gpus.xml /dev/nvidia-caps /dev/busbar"
)
# MIG files of the driver: the device minors of all possible instances.
MINORS = """
mount -t tmpfs tmpfs /proc/driver
mkdir -p /proc/driver/nvidia-caps
for gi in $(seq 7); do
    printf 'gpu0/gi%s/access %s\\ngpu0/gi%s/ci0/access %s\\n' $gi $((2 * gi - 1)) $gi $((2 * gi))
done > /proc/driver/nvidia-caps/mig-minors
"""
# The driver of a simulated GPU: the files that slurmd reads for a real one.
DRIVER = """
mount -t tmpfs tmpfs /proc/driver
mount -t tmpfs tmpfs /sys/bus/pci/drivers
for index in 0 1; do
    bus=ffff:0$((index + 1)):00.0
    mkdir -p /proc/driver/nvidia/gpus/$bus /sys/bus/pci/drivers/nvidia/$bus
    printf 'Model: Simulated GPU\\nDevice Minor: %s\\n' $index > /proc/driver/nvidia/gpus/$bus/information
    echo 0-$(($(nproc) < 4 ? $(nproc) - 1 : 3)) > /sys/bus/pci/drivers/nvidia/$bus/local_cpulist
done
"""


@pytest.fixture
def run(sandbox: Cluster, tmp_path: Path) -> Run:
    """Return a function that runs the GPU plays with variables of the one node."""
    plays = tmp_path / "gpus.yml"
    plays.write_text(
        yaml.safe_dump([{"import_playbook": str(TOP / f"playbooks/{name}.yml")} for name in ("nvidia", "slurm")])
    )
    extra = tmp_path / "node.yml"
    catalogue = site_catalogue({})
    site = yaml.safe_load((sandbox.inventory / "group_vars/all/zz_sandbox.yml").read_text())["hardware_profiles_extra"]
    plain = {**catalogue["sandbox_gpu"], **site["sandbox_gpu"]}
    gpu = catalogue["sandbox_gpu"]["gpu"] | {"model": "Simulated A100", "memory_mb": 40960}
    profiles = json.dumps({"hardware_profiles_extra": {**site, "sandbox_mig": {**plain, "gpu": gpu}}})

    def play(variables: dict[str, Any], tags: str, *options: str) -> subprocess.CompletedProcess[str]:
        extra.write_text(yaml.safe_dump({"all": {"hosts": {NODE: variables}}}))
        return sandbox.playbook(str(plays), "-i", str(extra), "-e", profiles, "--tags", tags, *options)

    return play


@pytest.fixture
def divisible(sandbox: Cluster, run: Run) -> Iterator[None]:
    """Make the node replay GPUs that support MIG, with device files for the instances; all is restored at the end."""
    sandbox.exec(NODE, "cp -p /etc/simulated-gpus.xml /root/simulated-gpus.sound")
    recording = gpu_recording(NODE, 2, SIMULATED_A100)
    sandbox.exec(NODE, f"cat > /etc/simulated-gpus.xml <<'END'\n{recording}END\nmkdir -p /dev/nvidia-caps")
    sandbox.exec(NODE, f"for each in $(seq 14); do mknod -m 0444 {CAPS}$each c 236 $each; done")
    sandbox.exec(NODE, MINORS)
    yield
    sandbox.exec("ctl", "scancel --user=alice")
    sandbox.exec(NODE, "systemctl disable busbar-mig", check=False)
    sandbox.exec(NODE, "mv /root/simulated-gpus.sound /etc/simulated-gpus.xml")
    if "sim" not in gres(sandbox):
        run({}, "slurm_controller")
    sandbox.exec(NODE, f"umount /proc/driver; rm -rf {LEFT}; systemctl daemon-reload")
    if "drain" in sandbox.node_states()[NODE]:
        sandbox.exec("ctl", f"scontrol update nodename={NODE} state=resume")
    sandbox.wait_idle()


def gres(sandbox: Cluster) -> str:
    """Return the node's GPUs according to Slurm."""
    return sandbox.exec("ctl", f"sinfo -h -n {NODE} -o %G").stdout.strip()


def instances(sandbox: Cluster) -> int:
    """Return the number of MIG instances of the node."""
    return sandbox.exec(NODE, "nvidia-smi mig -lgi", check=False).stdout.count("MIG 1g.5gb")


def reason(sandbox: Cluster) -> str:
    """Return the drain reason of the node."""
    return sandbox.exec("ctl", f"sinfo -h -n {NODE} -o %E").stdout.strip()


@pytest.mark.scenario
@pytest.mark.usefixtures("divisible")
def test_layout_is_applied_on_the_drained_node_and_agrees_with_slurm(sandbox: Cluster, run: Run) -> None:
    declared = {"hardware": "sandbox_mig", "mig_layout": LAYOUT}
    job = sandbox.exec(
        "login", f"sbatch --parsable -w {NODE} -o /dev/null --wrap 'sleep 300'", user="alice"
    ).stdout.strip()
    sandbox.wait_until(
        lambda: sandbox.exec("ctl", f"squeue -h -j {job} -o %T").stdout == "RUNNING\n", "the job does not start"
    )
    busy = run(declared, "mig", "--limit", NODE)
    assert busy.returncode
    assert f"Jobs {job} still run on {NODE}, and " in " ".join(busy.stdout.split())
    assert recap(busy.stdout)[NODE]["changed"] == 0
    assert (instances(sandbox), reason(sandbox)) == (0, "none")
    sandbox.exec("ctl", f"scancel {job}")
    sandbox.wait_idle()

    # Slurm does not know the instances at first, so the node is resumed only at the end.
    whole = run(declared, "mig,slurm_controller,slurm_verify")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert (gres(sandbox), reason(sandbox)) == ("gpu:1g.5gb:7,gpu:sim:1", "none")
    ran = sandbox.exec(
        "login",
        f"srun -w {NODE} --gres=gpu:1g.5gb:1 bash -c ': < {CAPS}1' 2>&1; srun -w {NODE} --gres=gpu:1g.5gb:1 "
        f"bash -c ': < {CAPS}3' 2>&1",
        user="alice",
        check=False,
    ).stdout
    assert f"{CAPS}1: No such device" in ran
    assert f"{CAPS}3: Operation not permitted" in ran
    again = run(declared, "mig", "--limit", NODE)
    assert recap(again.stdout)[NODE]["changed"] == 0, again.stdout

    # A boot removes the instances and the links to their device files; the unit creates them again.
    named = sandbox.exec(NODE, "ls -l --time-style=+ /dev/busbar").stdout
    sandbox.exec(NODE, "rm -r /run/simulated-gpus.xml /dev/busbar")
    assert instances(sandbox) == 0
    sandbox.exec(NODE, "systemctl restart busbar-mig")
    assert instances(sandbox) == 7
    assert sandbox.exec(NODE, "ls -l --time-style=+ /dev/busbar").stdout == named

    off = run({**declared, "mig_layout": []}, "mig,slurm_controller,slurm_verify")
    assert off.returncode == 0, off.stdout + off.stderr
    assert (instances(sandbox), gres(sandbox), reason(sandbox)) == (0, "gpu:sim:2", "none")
    assert not sandbox.host(NODE).file("/etc/busbar/mig.conf").exists
    assert not sandbox.host(NODE).file("/dev/busbar").exists


def test_unsupported_layout_is_refused_and_nothing_is_written(sandbox: Cluster, run: Run) -> None:
    sum_before = sandbox.exec("ctl", "cat /etc/slurm/*.conf | sha256sum").stdout
    eight = {"hardware": "sandbox_mig", "mig_layout": [{"profile": "1g.5gb", "count": 8}]}
    unfit = run(eight, "slurm_controller", "--limit", "ctl")
    assert unfit.returncode
    assert f"{NODE}: mig_layout: GPU 0,1: 8 x 1g.5gb on one A100 40 GB, which supports at most 7" in unfit.stdout
    # Debian's Slurm is built without NVML.
    layout = {"hardware": "sandbox_mig", "mig_layout": [{"profile": "7g.40gb"}], "slurm_gres_mode": "nvml"}
    early = run(layout, "mig", "--limit", NODE)
    assert early.returncode
    assert f"{NODE}: slurm_gres_mode is nvml, but the installed Slurm has no gpu_nvml.so" in " ".join(
        early.stdout.split()
    )
    assert "drain" not in sandbox.node_states()[NODE]
    blind = run(layout, "slurm_controller", "--limit", "ctl")
    assert blind.returncode
    assert "the installed Slurm has no gpu_nvml.so" in " ".join(blind.stdout.split())
    assert sandbox.exec("ctl", "cat /etc/slurm/*.conf | sha256sum").stdout == sum_before


def test_slurm_detects_gpus_by_their_driver(sandbox: Cluster, run: Run) -> None:
    sandbox.exec(NODE, DRIVER)
    try:
        done = run({"slurm_gres_mode": "nvidia"}, "slurm_controller,slurm_verify")
        assert done.returncode == 0, done.stdout + done.stderr
        lines = sandbox.exec("ctl", "grep NodeName /etc/slurm/gres.conf").stdout.splitlines()
        assert f"NodeName={NODE} AutoDetect=nvidia" in lines
        # Only the driver reports the socket of a GPU.
        sandbox.wait_until(lambda: "(S:0)" in gres(sandbox), f"nothing was detected: {gres(sandbox)}")
        assert gres(sandbox) == "gpu:sim:2(S:0)"
        listed = sandbox.exec("login", f"srun -w {NODE} --gres=gpu:sim:1 nvidia-smi -L", user="alice").stdout
        assert listed.count("Simulated GPU") == 1
    finally:
        run({}, "slurm_controller,slurm_verify")
        sandbox.exec(NODE, "umount /proc/driver /sys/bus/pci/drivers")
        sandbox.wait_idle()
    assert gres(sandbox) == "gpu:sim:2"
