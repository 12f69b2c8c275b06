"""The cluster of these tests: an existing or new provisioned sandbox."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import testinfra
from busbar.errors import UsageError
from busbar.sandbox.state import load
from ldap_directory import directory, directory_key  # noqa: F401 - fixtures of all tests
from portal_browser import chromium  # noqa: F401
from portal_host import again, portal  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOP = Path(__file__).resolve().parents[2]
DEFAULT_NAME = "test"
FIRST_RUN_TIMEOUT_S = 1800
# For validations that do not test the speed: one small message, and a floor that a very busy machine reaches as well.
QUICK = (
    *("-e", "validation_max_bytes=1M", "-e", "validation_seconds_per_size=0.2"),
    *("-e", "validation_floor_gbs=0.0001"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that grow the sandbox after all others, because every node slows the rest down.

    Tests that need the cluster's own directory come last; it stays until all tests are finished.
    """
    items.sort(
        key=lambda item: (
            "directory" in getattr(item, "fixturenames", ()),
            item.get_closest_marker("grows") is not None,
        )
    )


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A running sandbox and operations on it."""

    name: str

    @property
    def state(self) -> Path:
        """Return its state folder."""
        return load(self.name).path

    @property
    def inventory(self) -> Path:
        """Return its inventory folder."""
        return self.state / "inventory"

    @property
    def compute(self) -> list[str]:
        """Return the names of its compute nodes."""
        return load(self.name).compute_nodes

    def container(self, node: str) -> str:
        """Return the container of a node."""
        return load(self.name).container(node)

    def exec(
        self, node: str, command: str, *, user: str | None = None, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a node as root, or as `user` in a login shell."""
        inner = ["runuser", "-l", user, "-c", command] if user else ["bash", "-c", command]
        done = subprocess.run(
            ["podman", "exec", self.container(node), *inner],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode:
            pytest.fail(f"{node}: {command!r} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def host(self, node: str) -> Any:  # noqa: ANN401 - testinfra is untyped
        """Return a node as a testinfra host."""
        return testinfra.get_host(f"podman://{self.container(node)}")

    def playbook(self, name: str, *arguments: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Run one of our playbooks on this cluster; the caller checks the exit code."""
        command = ["ansible-playbook", "-i", str(self.inventory), str(TOP / "playbooks" / name), *arguments]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=timeout, cwd=TOP, env=plain_environment()
        )

    def busbar(self, *arguments: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Run the command line; the caller checks the exit code."""
        return subprocess.run(
            ["busbar", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=TOP,
            env=plain_environment(),
        )

    def fault(self, *arguments: str) -> None:
        """Inject a fault, or heal all faults."""
        done = self.busbar("sandbox", "fault", "--name", self.name, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def wait_until(self, what: Callable[[], bool], message: str, timeout: float = 60) -> None:
        """Wait until `what` is true, or fail with the message."""
        deadline = time.monotonic() + timeout
        while not what():
            if time.monotonic() > deadline:
                pytest.fail(f"{message} (waited {timeout:.0f} s)")
            time.sleep(0.5)

    def node_states(self) -> dict[str, str]:
        """Return the state of each compute node from sinfo."""
        listed = self.exec("ctl", "sinfo -hN -o '%N %t'").stdout.split("\n")
        return dict(line.split(maxsplit=1) for line in listed if line)

    def wait_for_new_machine(self, node: str) -> None:
        """Wait until a new machine answers at a reused address; other hosts cache the old MAC address for a while."""
        address = self.exec(node, "hostname -I").stdout.split()[0]
        scan = ["ssh-keyscan", "-T", "3", address]
        self.wait_until(
            lambda: bool(subprocess.run(scan, check=False, capture_output=True).stdout), f"no sshd at {address}", 180
        )

    def wait_idle(self, timeout: float = 60) -> None:
        """Wait until every compute node answers and is idle."""
        self.wait_until(
            lambda: set(self.node_states().values()) == {"idle"}, f"nodes not idle: {self.node_states()}", timeout
        )


def plain_environment() -> dict[str, str]:
    """Return the environment without colours and without Molecule's settings for its own Ansible."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_"))}
    return kept | {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "NO_COLOR": "1"}


@pytest.fixture(scope="session")
def sandbox_name(worker_id: str) -> str:
    """Return the name of the sandbox, also the prefix of other sandboxes: BUSBAR_TEST_SANDBOX (default: test).

    Each worker of pytest-xdist has its own sandbox.
    """
    name = os.environ.get("BUSBAR_TEST_SANDBOX", DEFAULT_NAME)
    return name if worker_id == "master" else f"{name}-{worker_id}"


@pytest.fixture(scope="session")
def whole_first_run(sandbox_name: str) -> str:
    """Return the output of the first run of the whole site, or '' if the sandbox already existed.

    The sandbox stays for the next tests: `scripts/test` removes the sandboxes that it created.
    """
    with contextlib.suppress(UsageError):
        load(sandbox_name)
        return ""
    cluster = Cluster(sandbox_name)
    with alone():
        made = cluster.busbar("sandbox", "up", "--name", sandbox_name)
    assert made.returncode == 0, made.stdout + made.stderr
    done = cluster.busbar("provision", "-i", str(cluster.inventory), timeout=FIRST_RUN_TIMEOUT_S)
    if done.returncode:
        cluster.busbar("sandbox", "down", "--name", sandbox_name)
        pytest.fail(f"the first run ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold a lock that excludes other workers: the first sandbox builds the image that all use."""
    lock = TOP / ".cache" / "tests.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def sandbox(sandbox_name: str, whole_first_run: str) -> Iterator[Cluster]:  # noqa: ARG001 - must run first
    """Return the provisioned sandbox of these tests; faults are healed at the end."""
    cluster = Cluster(sandbox_name)
    cluster.fault("heal")
    yield cluster
    cluster.fault("heal")


@pytest.fixture
def faults(sandbox: Cluster) -> Iterator[Callable[..., None]]:
    """Return the function that injects faults; they are always healed when the test ends."""
    yield sandbox.fault
    sandbox.fault("heal")
    # slurmctld rarely polls a returned node for a job that was cancelled in the meantime, so the job ends late.
    sandbox.wait_idle(240)


def recap(output: str) -> dict[str, dict[str, int]]:
    """Return Ansible's recap as data: host to {ok, changed, …}."""
    lines = output[output.rindex("PLAY RECAP") :].splitlines()[1:]
    pairs = [line.split(":", 1) for line in lines if ":" in line and "ok=" in line]
    return {
        host.strip(): {key: int(value) for key, value in (item.split("=") for item in counts.split())}
        for host, counts in pairs
    }


def succeeded(done: subprocess.CompletedProcess[str]) -> None:
    """Check that a playbook succeeded; otherwise fail with the failed tasks only."""
    if done.returncode:
        pytest.fail(f"ended with {done.returncode}:\n{failures(done.stdout)}{done.stderr}")


def failures(output: str) -> str:
    """Return the failed tasks and the recap from Ansible's output, or the whole output if no task failed."""
    blocks = re.split(r"\n(?=(?:TASK|PLAY|RUNNING HANDLER) )", output)
    told = [block for block in blocks if re.search(r"^(?:fatal|failed): |^\[ERROR\]", block, re.MULTILINE)]
    recaps = [block for block in blocks if block.startswith("PLAY RECAP")]
    return "\n".join([*told, *recaps]) if told else output


def as_json(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Return parsed JSON; if it is invalid, the failure message contains the text."""
    try:
        return json.loads(text)
    except ValueError:
        pytest.fail(f"not JSON: {text[:500]}")
