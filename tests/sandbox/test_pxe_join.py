"""Tests of a machine with its own firmware and kernel that boots the image of its cluster and joins through the gate.

Without KVM the machine is emulated, which takes many times as long, so times are only recorded for the documentation.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING

import pytest
from booted_image import SERVER
from booted_machine import BootedMachine
from conftest import QUICK, recap
from test_slurm_jobs import GRANTED, OPEN_ALL, REFUSED, srun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = [pytest.mark.proves("node_pull", "pxe_server", "slurm"), pytest.mark.grows]

RUN_TIMEOUT_S = 3600


@pytest.fixture(scope="module")
def machine(sandbox: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BootedMachine]:
    """Return a machine that has booted from the network but is not a member yet; everything is restored at the end."""
    made = BootedMachine(sandbox, tmp_path_factory.mktemp("machine"))
    try:
        made.build()
        made.boot()
        yield made
    finally:
        made.remove()


def test_firmware_loads_ipxe_and_ipxe_loads_the_image(machine: BootedMachine) -> None:
    said = machine.sandbox.exec(SERVER, "journalctl -o cat -u busbar-pxe-dhcp").stdout
    assert re.search(rf"sent \S*/snponly\.efi to {re.escape(machine.address)}", said), said
    assert machine.on_node("test -d /sys/firmware/efi && echo UEFI").stdout.strip() == "UEFI"
    words = machine.on_node("cat /proc/cmdline").stdout
    assert f"BOOTIF=01-{machine.mac.replace(':', '-')}" in words
    assert machine.on_node("findmnt -no FSTYPE /").stdout.strip() == "overlay"


def test_machine_has_its_identity_and_its_bundle(machine: BootedMachine) -> None:
    machine.wait_for_bundle(RUN_TIMEOUT_S)
    assert machine.on_node("hostname").stdout.strip() == machine.node
    assert machine.on_node("findmnt -no SOURCE /var/lib/busbar/state").stdout.startswith("/dev/")
    assert machine.status()["result"] == "applied", machine.status()
    assert machine.dns in machine.on_node("cat /etc/resolv.conf").stdout


def test_machine_joins_through_the_gate_and_runs_jobs(machine: BootedMachine) -> None:
    sandbox, node = machine.sandbox, machine.node
    machine.bootstrap()
    known = time.monotonic()
    said = machine.join(*QUICK, timeout=RUN_TIMEOUT_S)
    joined = time.monotonic()
    assert "Verdict: PASS" in said
    sandbox.wait_idle()
    figures = {"boot_s": machine.booted_s, "bundle_s": machine.status()["seconds"], "join_s": joined - known}
    figures |= {"joined_s": joined - machine.up, "load": os.getloadavg()[0]}
    (sandbox.state / "booted_machine.json").write_text(json.dumps(figures), encoding="utf-8")
    assert sandbox.node_states()[node] == "idle"
    ran = sandbox.exec("login", f"srun -w {node} --gpus-per-node=1 uname -rn", user="alice", timeout=300).stdout.split()
    assert ran == [node, machine.on_node("uname -r").stdout.strip()]
    # Confined by the kernel of the machine itself.
    opened = srun(sandbox, f"-w {node} --gpus-per-node=1", OPEN_ALL).split()
    assert sorted(opened[1::2]) == [GRANTED, REFUSED]


def test_second_run_changes_nothing(machine: BootedMachine) -> None:
    again = machine.join(timeout=RUN_TIMEOUT_S)
    assert "New nodes: none" in again
    words = ("provision", *machine.inventory, "--limit", machine.node, "--skip-tags", "validation")
    done = machine.sandbox.busbar(*words, timeout=RUN_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recap(done.stdout)[machine.node]["changed"] == 0, done.stdout


def test_machine_returns_with_its_host_key_after_a_reboot(machine: BootedMachine) -> None:
    """The small disk stores its host key; memory is lost."""
    sandbox, node, former = machine.sandbox, machine.node, machine.fingerprint()
    machine.switch_off()
    machine.boot()
    machine.wait_for_bundle(RUN_TIMEOUT_S)
    assert machine.fingerprint() == former
    sandbox.wait_until(lambda: sandbox.node_states()[node] == "down*", "Slurm does not miss it", 300)
    assert machine.on_node("systemctl is-enabled slurmd", check=False).stdout.strip() == "disabled"
    said = machine.take_back("-e", "replace_node_same_machine=true", *QUICK, timeout=RUN_TIMEOUT_S)
    assert "Verdict: PASS" in said
    sandbox.wait_idle()
    ran = sandbox.exec("login", f"srun -w {node} --gpus-per-node=1 hostname", user="alice", timeout=300)
    assert ran.stdout.strip() == node
