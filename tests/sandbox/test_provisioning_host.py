"""Tests of a bare Debian machine as provisioning host, set up as in README: its unit tests, and a site over real SSH.

With Debian 12's Python 3.11, requirements.txt installs the lowest supported ansible-core; with Debian 13's Python 3.13
the highest.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from busbar.sandbox import host, image
from busbar.sandbox.cluster import FILES
from busbar.sandbox.state import load
from conftest import FIRST_RUN_TIMEOUT_S, QUICK, TOP, Cluster, recap

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proves()

VERSIONS = {"debian12": ("Python 3.11.", "core 2.19."), "debian13": ("Python 3.13.", "core 2.21.")}
# Certificate authorities that this machine trusts, and its access to a package index.
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
PASSED_ON = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "http_proxy", "https_proxy", "no_proxy")
COPY = "git ls-files -z --cached --others --exclude-standard | tar -c --null --files-from=- --ignore-failed-read"
NODES = ("ctl", "login", "gpu1")
PASSWORD = "first contact"  # noqa: S105 - of machines that live as long as the test
OF_THIS_MACHINE = {"ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args"}
UNITS_TIMEOUT_S = 3600


class Machine:
    """A bare machine with a copy of this checkout in the home of an admin with sudo."""

    def __init__(self, name: str) -> None:
        """Store the name of its container."""
        self.name = name

    def create(self, distribution: str, *options: str) -> None:
        """Start the machine, copy the checkout and set it up."""
        bare, _ = image.ensure_image(distribution)
        self.remove()
        trust = [f"--volume={TRUSTED}:{TRUSTED}:ro"] if TRUSTED.exists() else []
        host.podman(
            *(f"--runtime={host.choose_runtime()}", "run", "--detach", f"--name={self.name}", "--hostname=provisioner"),
            *("--systemd=always", "--privileged", "--cgroupns=private", "--pids-limit=-1", *host.ulimits()),
            *("--stop-signal=SIGRTMIN+3", f"--env=ADMIN={image.ADMIN}", "--env=ADMIN_KEY=", *trust, *options),
            *(bare, "/bin/sh", "-c", (FILES / "init").read_text(encoding="utf-8")),
        )
        host.podman("exec", self.name, "systemctl", "is-system-running", "--wait", check=False)
        packed = subprocess.run(["bash", "-c", f"set -o pipefail; {COPY}"], check=True, capture_output=True, cwd=TOP)
        self.run("mkdir busbar && tar -x -C busbar", stdin=packed.stdout)

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = 1200) -> str:
        """Run a command as the admin and return its output."""
        passed = [f"--env={name}" for name in PASSED_ON if name in os.environ]
        done = subprocess.run(
            ["podman", "exec", "-i", *passed, f"--user={image.ADMIN}", self.name, "bash", "-lc", f"cd; {command}"],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            input=stdin,
            timeout=timeout,
        )
        said = done.stdout.decode(errors="replace")
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{said[-8000:]}"
        return said

    def remove(self) -> None:
        """Remove the machine."""
        host.podman("rm", "--force", "--ignore", "--time=0", self.name)


@pytest.fixture
def machine(sandbox_name: str) -> Iterator[Machine]:
    """Return a machine, which the test creates."""
    one = Machine(f"busbar-{sandbox_name}-provisioner")
    yield one
    one.remove()


def is_here(distribution: str) -> bool:
    """Return whether this machine has the distribution; scripts/test runs the unit tests on it anyway."""
    return f'VERSION_ID="{distribution.removeprefix("debian")}"' in Path("/etc/os-release").read_text(encoding="utf-8")


@pytest.mark.parametrize("distribution", VERSIONS)
def test_unit_tests_pass_with_the_python_of_the_distribution(distribution: str, machine: Machine) -> None:
    if is_here(distribution):
        pytest.skip(f"this machine runs the unit tests with the Python of {distribution}")
    machine.create(distribution)
    machine.run("cd busbar && scripts/setup --test")
    versions = machine.run(". busbar/.venv/bin/activate && python --version && ansible --version")
    assert [word for word in VERSIONS[distribution] if word not in versions] == []
    machine.run("cd busbar && git init -q && git add -A && git -c user.name=x -c user.email=x@x commit -qm x")
    machine.run(
        'cd busbar && sudo env PATH="$PWD/.venv/bin:$PATH" python -m pytest -q tests/unit', timeout=UNITS_TIMEOUT_S
    )


@pytest.fixture
def bare(sandbox_name: str) -> Iterator[Cluster]:
    """Return three bare nodes on which the admin can only log in with a password."""
    one = Cluster(f"{sandbox_name}-readme")
    made = one.busbar("sandbox", "up", "--name", one.name, "--compute", "1")
    assert made.returncode == 0, made.stderr
    for node in NODES:
        one.exec(node, f"rm /home/{image.ADMIN}/.ssh/authorized_keys; echo '{image.ADMIN}:{PASSWORD}' | chpasswd")
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def edited(template: dict[str, Any], addresses: dict[str, str]) -> dict[str, Any]:
    """Return the inventory of `busbar init` with the machines of the sandbox and without monitoring."""
    groups = template["all"]["children"]
    groups.pop("monitoring")
    for group in groups.values():
        for name, variables in (group.get("hosts") or {}).items():
            if variables and name in addresses:
                variables["ansible_host"] = addresses[name]
    (nodes,) = (group for group in groups.values() if "hardware" in group.get("vars", {}))
    nodes |= {"hosts": {"gpu1": {"ansible_host": addresses["gpu1"]}}, "vars": {"hardware": "sandbox_gpu"}}
    return template


def test_site_is_created_from_a_bare_machine_as_in_readme(bare: Cluster, machine: Machine) -> None:
    machine.create("debian13", f"--network={load(bare.name).network}")
    machine.run("cd busbar && scripts/setup")
    assert "core 2.21." in machine.run(". busbar/.venv/bin/activate && ansible --version")
    busbar = "cd hall && . ../busbar/.venv/bin/activate && busbar"
    machine.run(". busbar/.venv/bin/activate && busbar init hall")
    template = yaml.safe_load(machine.run("cat hall/inventory/hosts.yml"))
    inventory = edited(template, {node: load(bare.name).address(node) for node in NODES})
    machine.run("cat >hall/inventory/hosts.yml", stdin=yaml.safe_dump(inventory).encode())
    said = yaml.safe_load((bare.inventory / "group_vars/all/zz_sandbox.yml").read_text(encoding="utf-8"))
    overlay = {name: value for name, value in said.items() if name not in OF_THIS_MACHINE}
    machine.run("cat >hall/inventory/group_vars/all/zz_sandbox.yml", stdin=yaml.safe_dump(overlay).encode())
    machine.run("ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519")
    shown = {
        node: bare.exec(node, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[1] for node in NODES
    }
    vouched = " ".join(f"--fingerprint {node}={shown[node]}" for node in NODES)
    machine.run(f"export BUSBAR_SSH_PASSWORD={shlex.quote(PASSWORD)}; {busbar} ssh bootstrap {vouched}")
    machine.run(f"{busbar} provision preflight")
    done = machine.run(f"{busbar} provision {' '.join(QUICK)}", timeout=FIRST_RUN_TIMEOUT_S)
    assert set(recap(done)) == set(NODES)
    assert "Verdict: PASS" in done
    logs = machine.run("cat hall/logs/*.log")
    assert [line for line in (done + logs).splitlines() if "DEPRECATION WARNING" in line] == []
