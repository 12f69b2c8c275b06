"""Tests of README's first steps on a site with a sudo password, SSH on port 2222, and nodes behind a jump host.

The site is the one that README, or `busbar init`, tells the reader to write: see tests/fixtures/first_steps.py for the
differences.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.sandbox import cluster as machines
from busbar.sandbox.state import Sandbox
from conftest import alone, plain_environment, recap
from first_steps import SSH_PORT, hosts_of, overlay, write_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves("site", "ssh", "users")

PASSWORD = "correct horse battery staple"  # noqa: S105 - of machines that live for one test
JUMP = "login"
# State after the site's own installation: sudo asks for a password, sshd uses another port, no key is authorised.
INSTALLED = f"""set -e
echo 'admin:{PASSWORD}' | chpasswd
echo 'admin ALL=(ALL) ALL' >/etc/sudoers.d/admin
rm -rf /home/admin/.ssh
echo 'Port {SSH_PORT}' >/etc/ssh/sshd_config.d/00-site.conf
systemctl restart ssh
"""


@dataclasses.dataclass
class Machines(Sandbox):
    """Machines with the names of a site."""

    names: list[str] = dataclasses.field(default_factory=list)

    @property
    def controller_nodes(self) -> list[str]:
        """Return the names of the controllers."""
        return ["ctl"]

    @property
    def compute_nodes(self) -> list[str]:
        """Return the names of the compute nodes."""
        return self.names

    @property
    def nodes(self) -> list[str]:
        """Return the names of all machines."""
        return ["ctl", JUMP, *self.names]

    def address(self, node: str) -> str:
        """Return the IPv4 address of a machine."""
        return f"{self.subnet}.{10 + self.nodes.index(node)}"

    def exec(self, node: str, command: str, *, user: str | None = None) -> str:
        """Run a shell command on a machine as root, or as `user` in a login shell; return its output."""
        inner = ["runuser", "-l", user, "-c", command] if user else ["bash", "-c", command]
        done = subprocess.run(
            ["podman", "exec", self.container(node), *inner], check=False, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, f"{node}: {command}: {done.stdout}{done.stderr}"
        return done.stdout


@dataclasses.dataclass
class Hall:
    """A site and its machines."""

    folder: Path
    machines: Machines

    def busbar(self, *arguments: str, timeout: float = 2400) -> subprocess.CompletedProcess[str]:
        """Run the command in the site's folder, as an admin does; the caller checks the exit code."""
        kept = {name: value for name, value in plain_environment().items() if name != "ANSIBLE_CONFIG"}
        return subprocess.run(
            ["busbar", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=self.folder,
            env=kept | {"BUSBAR_SSH_PASSWORD": PASSWORD},
            stdin=subprocess.DEVNULL,
        )


def key_pair(path: Path) -> str:
    """Create an SSH key without a passphrase and return its public key."""
    path.parent.mkdir(exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path.with_name(f"{path.name}.pub").read_text().strip()


def behind(found: Machines, node: str) -> None:
    """Make a machine's SSH server reachable only from the machines of the site."""
    shown = subprocess.run(
        ["podman", "inspect", "-f", "{{.State.Pid}}", found.container(node)], check=True, capture_output=True, text=True
    )
    rule = f"ip rule add blackhole to {found.subnet}.1 ipproto tcp sport {SSH_PORT}"
    subprocess.run(["nsenter", "-t", shown.stdout.strip(), "-n", *rule.split()], check=True)


@pytest.fixture(params=["README.md", ""], ids=["README", "init"])
def hall(request: pytest.FixtureRequest, sandbox_name: str, tmp_path: Path) -> Iterator[Hall]:
    """Return a site with freshly installed machines."""
    folder = tmp_path / "hall"
    write_site(folder, request.param)
    found = Machines(f"{sandbox_name}-hall", names=hosts_of(folder)["slurm_compute"])
    machines.down(found.name)
    try:
        with alone():
            machines.up(found, lambda _line: None)
        for node in found.nodes:
            found.exec(node, INSTALLED)
        for node in found.compute_nodes:
            behind(found, node)
        files = {"key": str(folder / "ssh/id_ed25519"), "known_hosts": str(folder / "ssh/known_hosts")}
        key_pair(folder / "ssh/id_ed25519")
        addresses = {node: found.address(node) for node in found.nodes}
        overlay(folder, addresses, files, JUMP, key_pair(folder / "ssh/alice"))
        yield Hall(folder, found)
    finally:
        with contextlib.suppress(UsageError):
            machines.down(found.name)


def ended_well(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that a command succeeded and its output contains these words."""
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert [word for word in words if word not in done.stdout] == [], done.stdout[-6000:]


def test_first_steps_result_in_a_cluster(hall: Hall) -> None:
    """Follows README step by step; then a user uses the cluster."""
    found, node = hall.machines, hall.machines.compute_nodes[0]
    with pytest.raises(TimeoutError), socket.create_connection((found.address(node), SSH_PORT), timeout=2):
        pytest.fail(f"{node} is reached without its jump host")
    prints = [
        f"--fingerprint={each}={found.exec(each, 'ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub').split()[1]}"
        for each in found.nodes
    ]
    ssh = hall.folder / "ssh"
    where = ("--key", str(ssh / "id_ed25519.pub"), "--known-hosts", str(ssh / "known_hosts"))
    opened = hall.busbar("ssh", "bootstrap", *where, *prints)
    ended_well(opened, "key installed")
    assert "FAILED" not in opened.stdout

    for command in (["provision", "preflight"], ["inventory", "describe", node]):
        refused = hall.busbar(*command)
        assert refused.returncode != 0
        assert "-K (--ask-become-pass)" in refused.stdout + refused.stderr

    password = hall.folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    asked = ("--become-password-file", str(password))
    ended_well(hall.busbar("provision", "preflight", *asked))
    ended_well(hall.busbar("provision", *asked), "PASS")

    # The output of a job is in the folder where it was submitted, and hosts are reached by name only.
    job = found.exec(JUMP, f"sbatch --parsable -w {node} -o out.txt --wrap 'hostname; sleep 900'", user="alice").strip()
    found.exec(
        JUMP, f"for i in $(seq 90); do grep -qx {node} out.txt 2>/dev/null && exit; sleep 1; done; exit 1", user="alice"
    )
    batch = "ssh -o BatchMode=yes"
    assert found.exec(JUMP, f"{batch} {node} hostname", user="alice") == f"{node}\n"
    assert found.exec(node, f"{batch} {JUMP} hostname", user="alice") == f"{JUMP}\n"
    known = hall.folder / "secrets" / "known_hosts"
    options = ["-F", "none", "-i", str(ssh / "alice"), "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes"]
    login = ["ssh", *options, "-p", str(SSH_PORT), f"alice@{found.address(JUMP)}", "cat out.txt; git --version"]
    shown = subprocess.run(login, check=True, capture_output=True, text=True, env=dict(os.environ)).stdout
    assert re.fullmatch(rf"{node}\ngit version .*\n", shown)

    # No result is reported for a busy node; a second run changes nothing.
    checked = hall.busbar("provision", "remove_nodes", "--check", "-e", f"remove_nodes={node}", *asked)
    ended_well(checked, f"would drain {node} and wait for job {job} of alice on {node}")
    found.exec(JUMP, f"scancel {job}", user="alice")
    again = hall.busbar("provision", "configure", *asked)
    ended_well(again)
    assert {counts["changed"] for counts in recap(again.stdout).values()} == {0}
