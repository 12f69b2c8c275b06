"""A run that is shared out over slices: one is killed, nothing is lost, and a second run changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.sandbox.state import load
from conftest import FIRST_RUN_TIMEOUT_S, QUICK, TOP, Cluster, plain_environment, recap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.proves()
# One goes with the hosts that serve the cluster, so that is the least for two slices.
NODES = 3


@pytest.fixture(scope="module")
def cluster(sandbox_name: str) -> Iterator[Cluster]:
    """A sandbox with enough nodes: the one of all tests where it has them, else one of its own that is bare."""
    try:
        if len(load(sandbox_name).compute_nodes) >= NODES:
            yield Cluster(sandbox_name)
            return
    except UsageError:
        pass
    own = Cluster(f"{sandbox_name}-s")
    made = own.busbar("sandbox", "up", "--name", own.name, "--compute", str(NODES))
    assert made.returncode == 0, made.stdout + made.stderr
    try:
        yield own
    finally:
        own.busbar("sandbox", "down", "--name", own.name)


def started(cluster: Cluster, out: Path, *options: str) -> subprocess.Popen[bytes]:
    command = ["busbar", "provision", "-i", str(cluster.inventory), "--slices", "2", *QUICK, *options]
    with out.open("wb") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=TOP, env=plain_environment())


def slices_of(inventory: Path) -> dict[int, list[str]]:
    """The processes of Ansible that run slices of an inventory, with their hosts."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
            if str(inventory) not in words or "--limit" not in words or os.getsid(int(folder.name)) != int(folder.name):
                continue
            hosts = Path(words[words.index("--limit") + 1].removeprefix("@")).read_text()
        except (OSError, ValueError):
            continue
        found[int(folder.name)] = hosts.split()
    return found


def until(what: Callable[[], bool], process: subprocess.Popen[bytes], out: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert process.poll() is None, out.read_text()[-3000:]
        assert time.monotonic() < end, out.read_text()[-3000:]
        time.sleep(0.2)


def test_a_slice_that_is_killed_is_taken_over_and_nothing_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    log = cluster.state / "logs"
    before = set(log.glob("*provision.log"))
    process = started(cluster, out)

    def works() -> bool:
        """Whether the first slice is among the tasks of base, behind the checks."""
        fresh = set(log.glob("*provision.log")) - before
        return any("[slice 1] TASK [busbar.cluster.users" in path.read_text() for path in fresh)

    until(works, process, out, 900)
    victim = next(pid for pid, hosts in slices_of(cluster.inventory).items() if "gpu2" in hosts)
    os.kill(victim, signal.SIGKILL)
    code = process.wait(FIRST_RUN_TIMEOUT_S)
    said = out.read_text()
    assert code == 0, said[-5000:]
    assert said.count("slice 1 died: ") == 1
    assert "hosts are taken over here: gpu2" in said
    assert set(recap(said)) == {"ctl", "login", *cluster.compute}
    assert {counts["failed"] + counts["unreachable"] for counts in recap(said).values()} == {0}
    assert "Verdict: PASS" in said
    cluster.wait_idle(120)
    # What is done once for all has been done for all: each host knows each.
    for node in cluster.compute:
        assert cluster.exec(node, "grep -c ' gpu[0-9]' /etc/hosts").stdout.strip() == str(len(cluster.compute))
    known = (cluster.state / "secrets/known_hosts").read_text()
    assert [node for node in cluster.compute if node not in known] == []


def test_a_second_run_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert started(cluster, out).wait(FIRST_RUN_TIMEOUT_S) == 0, out.read_text()[-5000:]
    assert {counts["changed"] for counts in recap(out.read_text()).values()} == {0}, out.read_text()[-5000:]


def test_check_mode_sees_nothing_to_do(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert started(cluster, out, "--check", "--diff").wait(FIRST_RUN_TIMEOUT_S) == 0, out.read_text()[-5000:]
    assert {counts["changed"] for counts in recap(out.read_text()).values()} == {0}, out.read_text()[-5000:]


def test_ctrl_c_ends_all_slices_and_gives_the_inventory_back(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = started(cluster, out)
    until(lambda: len(slices_of(cluster.inventory)) == 3, process, out, 120)
    busy = cluster.busbar("provision", "base", "-i", str(cluster.inventory), "--slices", "2")
    assert busy.returncode == 2
    assert "another run works on this inventory: busbar provision site" in busy.stderr
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, out.read_text()[-3000:]
    assert "interrupted" in out.read_text()
    assert slices_of(cluster.inventory) == {}
    free = cluster.busbar("provision", "base", "-i", str(cluster.inventory), "--slices", "2", "--tags", "hosts")
    assert free.returncode == 0, free.stdout[-3000:] + free.stderr
