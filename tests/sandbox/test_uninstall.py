"""Tests of the uninstallation: a bare machine joins, is used, and is restored except for explained differences."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import QUICK, TOP, plain_environment, recap
from host_snapshot import snapshot, snapshot_differences
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from conftest import Cluster

pytestmark = [
    pytest.mark.proves("slurm", "users", "hosts", "ssh", "node_exporter", "node_health", "validation"),
    pytest.mark.grows,
]

# Reasons for remaining differences; a difference that matches none of these patterns fails the test.
SYSTEM = {
    r"path /etc/(group|gshadow|passwd|shadow|subgid|subuid)-: ": "the tools for accounts keep the last version",
    r"path /etc/sub(gid|uid): ": "useradd gives ranges of numbers, and userdel takes the lines away again",
    r"path /etc/ld\.so\.cache: |path /var/cache/ldconfig/": "ldconfig writes its cache anew",
    r"path /var/(lib/(dpkg|ucf|apt)[/:]|cache/(apt|debconf)/)": "the package manager's own books and downloads",
    r"path /var/log/(apt/|dpkg\.log|alternatives\.log)": "what the package manager did stays in its log",
    r"path /var/(log/(journal|wtmp|lastlog|btmp)|lib/(systemd|wtmpdb))": "logins and services in logs of the system",
    r"source \S+ \S+ \S+: nothing => known": "the package lists, which were fetched for the first time",
    r"path /var/tmp/systemd-private": "systemd gives services temporary directories, other ones at each start",
    r"path (/home/admin|/root)/\.(ansible|sudo_as_admin_successful|cache)": "who provisions logs in to each machine",
    r"path /var/cache/busbar-zip-bytecode": "the sandbox keeps compiled Python of what Ansible sends",
    r"active systemd-(hostnamed|localed|timedated)\.service: ": "is started when it is asked, and ends by itself",
}
# Changes that the admin made in the meantime.
ADMIN = {
    r"(package|manual) libmunge-dev: ": "the admin's package",
    r"path /usr/(include/munge|lib/\S+/(libmunge\.(a|la|so:)|pkgconfig))": "of the admin's package",
    r"path /(usr/share/doc|var/lib/dpkg/info)/libmunge-dev": "the admin's package",
    r"package libmunge2: |path /usr/(lib/\S+/libmunge\.so\.2|share/doc/libmunge2)": "the admin's package needs it",
    r"path /etc/hosts: ": "has a line of the admin's, and else what it had: checked below",
    r"path /etc/motd\.d": "the admin's file",
    r"path /var/lib/busbar(: |/kept)": "what the admin changed in files of busbar and of its packages",
}
MINE = {
    "package": "apt-get -q update && apt-get install -y -q --no-install-recommends libmunge-dev",
    "line": "echo '10.9.9.9 printer' >> /etc/hosts",
    "changed": "echo '# mine' >> /etc/ssh/ssh_config.d/01-busbar.conf",
    "beside": "echo mine > /etc/slurm/notes.txt",
    "own": "mkdir -p /etc/motd.d && echo mine > /etc/motd.d/mine",
}
KEPT = "/var/lib/busbar/kept"
# Kills apt-get, the module that waits for it, and its child processes.
KILL = "for pid in $(pgrep -x apt-get); do ps -o ppid= -p $pid; done | xargs kill -9; pkill -9 -x 'dpkg|apt-get'"


def uninstall(sandbox: Cluster, nodes: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook."""
    words = ("provision", "uninstall", "-i", str(sandbox.inventory), "-e", f"uninstall_nodes={nodes}")
    return sandbox.busbar(*words, *options)


def refused(sandbox: Cluster, nodes: str, said: str, *options: str) -> None:
    """Check that a run is refused with this error and changes nothing."""
    done = uninstall(sandbox, nodes, *options)
    assert done.returncode not in {0, 4}, done.stdout + done.stderr
    assert said in " ".join(done.stdout.split()), done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())


def join_again(sandbox: Cluster, node: str) -> None:
    """Provision a restored machine and put it into service."""
    words = ("provision", "replace_node", "-i", str(sandbox.inventory), "-e", f"replace_node={node}")
    # With all stages: a node is admitted after a test together with another node.
    done = sandbox.busbar(*words, "-e", "replace_node_same_machine=true", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    sandbox.wait_idle(120)


@pytest.fixture(scope="module")
def joined(sandbox: Cluster) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a joined node and its snapshot from when it was bare; it is in service again at the end."""
    sandbox.wait_idle(120)
    node = f"gpu{len(sandbox.compute) + 1}"
    done = sandbox.busbar("sandbox", "up", "--name", sandbox.name, "--compute", str(len(sandbox.compute) + 1))
    assert done.returncode == 0, done.stdout + done.stderr
    before = snapshot(sandbox, node)
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sandbox.exec("login", f"srun -w {node} --mem=64 sh -c 'echo mine > ~/{node}; hostname'", user="alice").stdout
    yield node, before
    if sandbox.node_states().get(node) != "idle":
        join_again(sandbox, node)


@pytest.mark.parametrize(
    ("nodes", "options", "said"),
    [
        ("", (), "uninstall_nodes: is empty"),
        ("gpu99", (), "gpu99: uninstall_nodes: is not a host of the inventory"),
        ("gpu1", ("-e", "uninstall_wiat=3"), "uninstall_wiat: unknown option of uninstall"),
        ("gpu1", ("--limit", "gpu1"), "--limit excludes this controller"),
        ("ctl", ("-e", "uninstall_leaves_data=true"), "which still belong to the cluster"),
        ("all", (), "all: uninstall_nodes: is not a host of the inventory"),
        ("ctl,login,gpu[1-2]", (), "would remain on the disk without a server"),
    ],
)
def test_invalid_input_is_refused(sandbox: Cluster, nodes: str, options: tuple[str, ...], said: str) -> None:
    refused(sandbox, nodes, said, *options)
    assert sandbox.exec("ctl", "scontrol ping").stdout
    assert sandbox.exec("gpu1", "systemctl is-active slurmd").stdout == "active\n"


def test_machine_of_an_older_busbar_is_refused(sandbox: Cluster, joined: tuple[str, dict[str, Any]]) -> None:
    node, _before = joined
    sandbox.exec(node, "mv /var/lib/busbar/baseline /root/baseline")
    try:
        done = uninstall(sandbox, node)
        assert done.returncode not in {0, 4}, done.stdout
        assert "before it took a baseline" in " ".join(done.stdout.split())
        assert sandbox.exec(node, "dpkg-query -W -f '${db:Status-Status}' slurmd").stdout == "installed"
    finally:
        sandbox.exec(node, "mv /root/baseline /var/lib/busbar/baseline")
    assert sandbox.node_states()[node] == "idle"


def test_running_job_is_never_cancelled(sandbox: Cluster, joined: tuple[str, dict[str, Any]]) -> None:
    node, _before = joined
    job = submit(sandbox, f"-w {node} --mem=64 -o /dev/null", "sleep 900")
    wait_for_state(sandbox, job, "RUNNING")
    try:
        done = uninstall(sandbox, node)
        assert done.returncode == 1, done.stdout
        assert f"{node}: job {job} of alice on {node}, after 0 s. No job was cancelled" in " ".join(done.stdout.split())
        wait_for_state(sandbox, job, "RUNNING")
        assert sandbox.exec(node, "systemctl is-active slurmd munge").stdout == "active\nactive\n"
    finally:
        sandbox.exec("ctl", f"scancel {job}; scontrol update nodename={node} state=resume")
    sandbox.wait_idle(120)


def test_every_remaining_difference_has_a_reason(sandbox: Cluster, joined: tuple[str, dict[str, Any]]) -> None:
    node, before = joined
    for command in MINE.values():
        sandbox.exec(node, command, timeout=300)
    used = snapshot(sandbox, node)
    done = uninstall(sandbox, node, "--check", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("removed package slurmd", "removed user alice", "removed /etc/munge/munge.key", "-# BEGIN busbar"):
        assert line in done.stdout
    assert _own_changes(snapshot_differences(used, snapshot(sandbox, node))) == []
    assert sandbox.node_states()[node] == "idle"

    done = uninstall(sandbox, node)
    assert done.returncode == 0, done.stdout + done.stderr
    assert unexplained(before, snapshot(sandbox, node)) == []
    for line in (
        "kept package libmunge2: needed by libmunge-dev",
        "kept home /shared/home/alice: of user alice",
        "kept /etc/ssh/ssh_config.d/01-busbar.conf: changed manually since busbar wrote it",
    ):
        assert line in done.stdout
    # No file of a user or admin is lost.
    assert sandbox.exec("login", f"cat ~/{node}", user="alice").stdout == "mine\n"
    assert sandbox.exec(node, "cat /etc/motd.d/mine").stdout == "mine\n"
    assert sandbox.exec(node, f"cat {KEPT}/etc/slurm/notes.txt").stdout == "mine\n"
    assert sandbox.exec(node, f"tail -1 {KEPT}/etc/ssh/ssh_config.d/01-busbar.conf").stdout == "# mine\n"
    assert sandbox.exec(node, "tail -1 /etc/hosts").stdout == "10.9.9.9 printer\n"
    assert "busbar" not in sandbox.exec(node, "cat /etc/hosts").stdout
    assert sandbox.exec(node, f"stat -c %a {KEPT}").stdout == "700\n"

    done = uninstall(sandbox, node)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    others = set(sandbox.compute) - {node}
    assert {sandbox.node_states()[other] for other in others} == {"idle"}


def test_killed_uninstallation_is_finished_by_the_next(sandbox: Cluster, joined: tuple[str, dict[str, Any]]) -> None:
    """A node with only a few packages, files and users of busbar suffices."""
    node, before = joined
    done = sandbox.busbar("provision", "base", "-i", str(sandbox.inventory), "--limit", node)
    assert done.returncode == 0, done.stdout + done.stderr
    # Also works if no other test of this file ran before.
    sandbox.exec(node, f"echo mine > /etc/chrony/mine; {MINE['own']}")
    words = ["busbar", "provision", "uninstall", "-i", str(sandbox.inventory), "-e", f"uninstall_nodes={node}"]
    run = subprocess.Popen(words, cwd=TOP, env=plain_environment(), stdout=subprocess.PIPE, text=True)
    sandbox.wait_until(
        lambda: _succeeds(sandbox, node, f"pgrep -x dpkg && {{ {KILL}; true; }}"), "no package is removed", 180
    )
    said, _ = run.communicate(timeout=300)
    assert run.returncode != 0, said
    assert sandbox.exec(node, "ls /var/lib/busbar/baseline/host.json").stdout

    done = uninstall(sandbox, node)
    assert done.returncode == 0, done.stdout + done.stderr
    assert unexplained(before, snapshot(sandbox, node)) == []
    assert sandbox.exec(node, f"cat {KEPT}/etc/chrony/mine /etc/motd.d/mine").stdout == "mine\nmine\n"
    assert "/var/lib/busbar/baseline" not in sandbox.exec(node, "ls -d /var/lib/busbar/*").stdout


def unexplained(before: dict[str, Any], after: dict[str, Any], explained: Iterable[str] = ADMIN) -> list[str]:
    """Return the differences that neither the system nor one of these patterns explains."""
    whys = [*SYSTEM, *explained]
    return [line for line in snapshot_differences(before, after) if not any(re.match(why, line) for why in whys)]


def _succeeds(sandbox: Cluster, node: str, command: str) -> bool:
    return sandbox.exec(node, command, check=False).returncode == 0


def _own_changes(differences: list[str]) -> list[str]:
    """Return the differences that are not caused by logins or the passage of time."""
    logs = (
        r"path /var/(log|cache/busbar-zip-bytecode|lib/(systemd|chrony|prometheus|busbar/node_health))|path /home/admin"
    )
    return [line for line in differences if not re.match(logs, line)]
