"""Tests of the sandbox itself: several in parallel, recovery after a killed run, complete removal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.cluster import containers
from busbar.sandbox.state import load, sandbox_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves()


def podman(*arguments: str) -> str:
    return subprocess.run(["podman", *arguments], check=True, capture_output=True, text=True).stdout


def traces(name: str) -> list[str]:
    """Return all containers, networks and folders of a sandbox on this machine."""
    network = [line for line in podman("network", "ls", "--format", "{{.Name}}").split() if line == f"busbar-{name}"]
    folder = [str(path) for path in sandbox_path(name).parent.glob(f"*{name}*")]
    return [*containers(name), *network, *folder]


@pytest.fixture
def second(sandbox: Cluster) -> Iterator[str]:
    """Return the name of another sandbox, which is removed at the end."""
    name = f"{sandbox.name}-b"
    yield name
    sandbox.busbar("sandbox", "down", "--name", name)


def test_two_sandboxes_run_in_parallel_and_one_is_removed_completely(sandbox: Cluster, second: str) -> None:
    before = set(containers(sandbox.name))
    made = sandbox.busbar("sandbox", "up", "--name", second, "--compute", "1", "--gpus", "1")
    assert made.returncode == 0, made.stderr
    assert load(second).subnet != load(sandbox.name).subnet
    shown = sandbox.busbar("sandbox", "exec", "--name", second, "gpu1", "--", "nvidia-smi", "-L")
    assert shown.stdout == "GPU 0: Simulated GPU (UUID: GPU-simulated-gpu1-0)\n"
    gone = sandbox.busbar("sandbox", "down", "--name", second)
    assert gone.returncode == 0, gone.stderr
    assert traces(second) == []
    assert set(containers(sandbox.name)) == before


def test_nodes_start_bare_and_cannot_change_the_host(sandbox: Cluster, second: str) -> None:
    sandbox.busbar("sandbox", "up", "--name", second, "--compute", "1")
    script = "for program in slurmd munged chronyd mariadbd; do command -v $program; done; command -v sudo"
    ran = sandbox.busbar("sandbox", "exec", "--name", second, "gpu1", "--", "sh", "-c", script)
    assert ran.stdout == "/usr/bin/sudo\n"
    # `exec` runs with the privileges of the host; processes started by systemd on the node have those of the node.
    unit = "systemd-run --quiet --wait --pipe date -s 2001-01-01"
    clock = sandbox.busbar("sandbox", "exec", "--name", second, "gpu1", "--", "sh", "-c", unit)
    assert "not permitted" in clock.stderr
    unit = "systemd-run --quiet --wait --pipe sh -c 'echo 1 >/proc/sys/vm/swappiness'"
    kernel = sandbox.busbar("sandbox", "exec", "--name", second, "gpu1", "--", "sh", "-c", unit)
    assert "Read-only" in kernel.stderr
    keys = {
        sandbox.busbar(
            "sandbox", "exec", "--name", second, node, "--", "cat", "/etc/ssh/ssh_host_ed25519_key.pub"
        ).stdout
        for node in ("ctl", "login", "gpu1")
    }
    assert len(keys) == 3


@pytest.mark.parametrize("patience", [0.5, 1.5])
def test_run_after_a_killed_run_repairs_the_sandbox(sandbox: Cluster, second: str, patience: float) -> None:
    command = ["busbar", "sandbox", "up", "--name", second, "--compute", "1"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(patience)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    made = sandbox.busbar("sandbox", "up", "--name", second, "--compute", "1")
    assert made.returncode == 0, made.stderr
    ping = sandbox.busbar("sandbox", "ssh", "--name", second, "gpu1", "--", "sudo", "-n", "hostname")
    assert ping.stdout == "gpu1\n", ping.stderr
    assert sandbox.busbar("sandbox", "down", "--name", second).returncode == 0
    assert traces(second) == []


def test_faults_are_real_and_are_healed(sandbox: Cluster, faults: Callable[..., None]) -> None:
    faults("throttle", "gpu1", "100mbit")
    faults("stop", "gpu2", "ssh")
    faults("pull", "login")
    status = sandbox.busbar("sandbox", "status", "--name", sandbox.name, "--format", "json")
    shown = json.loads(status.stdout)
    assert status.returncode == 1
    assert {node["node"]: node["state"] for node in shown["nodes"]}["login"] == "exited"
    assert [fault["kind"] for fault in shown["faults"]] == ["throttle", "stop", "pull"]
    assert sandbox.exec("gpu2", "systemctl is-active ssh", check=False).stdout.strip() == "inactive"
    sandbox.fault("heal")
    assert sandbox.busbar("sandbox", "status", "--name", sandbox.name).returncode == 0
    assert sandbox.exec("gpu2", "systemctl is-active ssh").stdout.strip() == "active"
    assert sandbox.exec("login", "hostname").stdout.strip() == "login"


def test_all_nodes_share_a_file_system_reported_as_bind_mount(sandbox: Cluster) -> None:
    status = sandbox.busbar("sandbox", "status", "--name", sandbox.name, "--format", "json")
    source = sandbox.state / "storage" / "shared"
    assert json.loads(status.stdout)["storage"] == {"backend": "bind", "mount": "/shared", "source": str(source)}
    said = sandbox.busbar("sandbox", "status", "--name", sandbox.name).stdout
    assert "storage: bind, no NFS: /shared of every node is " in said
    sandbox.exec("login", "echo from login >/shared/probe", user="admin")
    try:
        for node in ("ctl", *sandbox.compute):
            assert sandbox.exec(node, "cat /shared/probe").stdout == "from login\n"
    finally:
        sandbox.exec("login", "rm /shared/probe")


def test_mounts_below_a_sandbox_are_never_deleted(sandbox: Cluster, second: str) -> None:
    sandbox.busbar("sandbox", "up", "--name", second, "--compute", "1")
    there = sandbox_path(second) / "storage" / "shared" / "data"
    there.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(there)], check=True)
    try:
        (there / "precious").touch()
        refused = sandbox.busbar("sandbox", "down", "--name", second)
        assert (there / "precious").exists()
    finally:
        subprocess.run(["umount", str(there)], check=True)
    assert refused.returncode == 2
    assert f"{there}: is a mount point" in refused.stderr
    assert sandbox.busbar("sandbox", "down", "--name", second).returncode == 0
    assert traces(second) == []


def test_sandbox_is_not_shrunk(sandbox: Cluster) -> None:
    refused = sandbox.busbar("sandbox", "up", "--name", sandbox.name, "--compute", "1")
    assert refused.returncode == 2
    assert "only --compute can be increased" in refused.stderr
    assert sandbox.busbar("sandbox", "status", "--name", sandbox.name).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fault", "throttle", "gpu1", "fast"), "such as 1gbit"),
        (("fault", "stop", "gpu1", "no-such"), "no service 'no-such'"),
        (("fault", "pull", "gpu99"), "no node 'gpu99'"),
        (("exec", "nowhere", "--", "true"), "no node 'nowhere'"),
    ],
)
def test_bad_input_is_reported_in_one_line(sandbox: Cluster, arguments: tuple[str, ...], words: str) -> None:
    action, *rest = arguments
    refused = sandbox.busbar("sandbox", action, "--name", sandbox.name, *rest)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
