"""A run that has nothing to do is left out; what was changed by hand is found before, and healed by the plain run."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest
from conftest import TOP, plain_environment, recap

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster

# After a full run without a change.
pytestmark = [pytest.mark.proves("hosts", "ssh", "slurm", "munge", "users", "node_exporter"), pytest.mark.grows]

OPTIONS = ("--skip-tags", "validation")
LEFT_OUT = "(full run), nothing drifted: skipped"
LOOK = "Execute the last full run once more, in check mode"
DAEMON = "prometheus-node-exporter"
SSHD, CHRONY = "/etc/ssh/sshd_config.d/01-busbar.conf", "/etc/chrony/chrony.conf"


class Change(NamedTuple):
    """What somebody does by hand on a node, how that is undone, and the role that sees it.

    Attributes:
        node: `ctl`, `login`, or the number of a compute node.
        healed: what succeeds when a full run has undone it; empty where a full run leaves it alone.
    """

    node: str
    command: str
    undo: str
    role: str
    healed: str = ""


CHANGES = {
    "content": Change(
        "0", f"echo 'X11Forwarding yes' >> {SSHD}", f"sed -i '$d' {SSHD}", "ssh", f"! grep X11.*yes {SSHD}"
    ),
    "mode": Change("0", f"chmod 666 {CHRONY}", f"chmod 644 {CHRONY}", "hosts", f"stat -c %a {CHRONY} | grep 644"),
    "owner": Change(
        "0",
        "chown nobody /etc/munge/munge.key",
        "chown munge /etc/munge/munge.key",
        "munge",
        "stat -c %U /etc/munge/munge.key | grep munge",
    ),
    "removed file": Change(
        "0",
        "mv /etc/ssh/shosts.equiv /root/kept",
        "mv /root/kept /etc/ssh/shosts.equiv",
        "ssh",
        "test -s /etc/ssh/shosts.equiv",
    ),
    "name in hosts": Change(
        "0",
        "cp /etc/hosts /root/hosts; sed '/ctl/d' /root/hosts > /etc/hosts",
        "cat /root/hosts > /etc/hosts",
        "hosts",
        "getent hosts ctl",
    ),
    "stopped daemon": Change(
        "0", f"systemctl stop {DAEMON}", f"systemctl start {DAEMON}", "node_exporter", f"systemctl is-active {DAEMON}"
    ),
    "disabled unit": Change(
        "0", "systemctl disable chrony", "systemctl enable chrony", "hosts", "systemctl is-enabled chrony"
    ),
    "masked unit": Change("0", "systemctl mask munge", "systemctl unmask munge", "munge"),
    "drop-in": Change(
        "0",
        "printf '[Service]\nNice=5\n' > /etc/systemd/system/slurmd.service.d/zz.conf",
        "rm /etc/systemd/system/slurmd.service.d/zz.conf && systemctl daemon-reload",
        "slurm",
    ),
    "user": Change(
        "1", "usermod -s /bin/sh alice", "usermod -s /bin/bash alice", "users", "getent passwd alice | grep /bin/bash"
    ),
    # A group that is not declared is the user's own affair.
    "group": Change("1", "gpasswd -a bob root", "gpasswd -d bob root", "users"),
    "removed package": Change(
        "1",
        "dpkg --remove --force-depends chrony",
        "apt-get install -y -o Dpkg::Options::=--force-confold chrony",
        "hosts",
        "systemctl is-active chrony",
    ),
    "job script": Change(
        "1",
        "chmod 644 /usr/local/lib/busbar/gpu_jobs_prolog",
        "chmod 755 /usr/local/lib/busbar/gpu_jobs_prolog",
        "slurm",
        "test -x /usr/local/lib/busbar/gpu_jobs_prolog",
    ),
    "accounting": Change(
        "ctl",
        "sacctmgr -i modify account research set GrpTRES=cpu=1",
        "sacctmgr -i modify account research set GrpTRES=cpu=-1",
        "slurm",
    ),
    "configuration of Slurm": Change(
        "ctl",
        "echo '# by hand' >> /etc/slurm/slurm.conf",
        "sed -i '$d' /etc/slurm/slurm.conf",
        "slurm",
        "! grep 'by hand' /etc/slurm/slurm.conf",
    ),
    "trust on the login node": Change(
        "login",
        "echo '# by hand' >> /etc/ssh/ssh_known_hosts",
        "sed -i '$d' /etc/ssh/ssh_known_hosts",
        "ssh",
        "! grep 'by hand' /etc/ssh/ssh_known_hosts",
    ),
}


@pytest.fixture(scope="module")
def record(sandbox: Cluster) -> Path:
    """The record of a full run without a change: the first may change something, the next one does not."""
    for _once_more in range(3):
        done = sandbox.busbar("provision", "-i", str(sandbox.inventory), *OPTIONS, timeout=1800)
        assert done.returncode == 0, done.stdout + done.stderr
        if LEFT_OUT in done.stdout:
            return sandbox.state / "logs/last_run"
    pytest.fail(f"a third run is still a full one: {done.stdout}")


def node_of(sandbox: Cluster, change: Change) -> str:
    return sandbox.compute[int(change.node)] if change.node.isdigit() else change.node


def drift(sandbox: Cluster, record: Path, node: str) -> str:
    """What the look at one node says."""
    done = subprocess.run(
        [
            *("ansible-playbook", "-i", str(sandbox.inventory), str(TOP / "playbooks/unchanged.yml"), "--limit", node),
            *("--start-at-task", LOOK, "-e", f"last_run_record={record}"),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=TOP,
        env=plain_environment() | {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.json"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: str = json.loads(done.stdout)["global_custom_stats"]["busbar_drift"][node]
    return found


def test_a_cluster_that_nobody_touched_is_left_alone_in_one_execution_for_each_host(
    sandbox: Cluster, record: Path
) -> None:
    done = sandbox.busbar("provision", "-i", str(sandbox.inventory), *OPTIONS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert LEFT_OUT in done.stdout
    assert "PLAY Create users" not in done.stdout
    counts = recap(done.stdout)
    assert set(counts) == {"ctl", "login", *sandbox.compute}
    assert {each["changed"] for each in counts.values()} == {0}
    assert (record / "record.json").exists()


@pytest.mark.parametrize("name", CHANGES)
def test_what_somebody_changes_by_hand_is_found(sandbox: Cluster, record: Path, name: str) -> None:
    change = CHANGES[name]
    node = node_of(sandbox, change)
    sandbox.exec(node, change.command)
    try:
        found = drift(sandbox, record, node)
    finally:
        sandbox.exec(node, change.undo, timeout=300)
    assert found.startswith(f"{change.role} : "), found


def test_the_plain_run_heals_it_all_and_the_next_ones_have_nothing_to_do(sandbox: Cluster, record: Path) -> None:
    done = [change for change in CHANGES.values() if change.healed]
    for change in done:
        sandbox.exec(node_of(sandbox, change), change.command)
    healing = sandbox.busbar("provision", "-i", str(sandbox.inventory), *OPTIONS, timeout=1800)
    assert healing.returncode == 0, healing.stdout + healing.stderr
    for node in ("ctl", "login", *sandbox.compute[:2]):
        assert f"{node}: changed since the last full run: " in healing.stdout
    for change in done:
        sandbox.exec(node_of(sandbox, change), change.healed)
    assert not record.exists()
