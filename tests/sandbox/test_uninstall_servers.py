"""Tests of the uninstallation of controller, database, file and monitoring hosts: last, with their data reused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from conftest import Cluster, recap
from host_snapshot import snapshot
from test_uninstall import refused, unexplained, uninstall
from test_upgrade_slurm import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.proves("slurm", "mariadb", "prometheus", "alertmanager", "slurm_metrics")]

# Each server has its own host, so one of the sandbox's three compute nodes remains.
COMPUTE, DATABASE, MONITORING = "gpu1", "gpu2", "gpu3"
SERVERS = ("ctl", DATABASE, MONITORING)
LEAVES = ("-e", "uninstall_leaves_data=true")
DATA = {
    "ctl": ("/var/lib/slurm/slurmctld", "/shared"),
    DATABASE: ("/var/lib/mysql",),
    MONITORING: ("/var/lib/prometheus/metrics2", "/var/lib/prometheus/alertmanager"),
}
# Reasons for remaining differences, in addition to those of any host.
KEPT = {r"path /var/lib/busbar(: |/kept)": "chrony's keys, which its package made and would take along"}
OWNED = r"path /etc/(group|gshadow|passwd|shadow): |(user|group) "
STAYS = {
    "ctl": {r"path /var/lib/slurm(:|/slurmctld)": "the queue", r"path /var/log/slurm": "as its package leaves it"},
    DATABASE: {
        r"path /var/lib/mysql": "the accounting",
        rf"{OWNED}|path /etc/mysql(:|/debian\.cnf)": "the accounting is this user's; Debian's access to it",
        r"path /var/log/slurm": "as its package leaves it",
    },
    MONITORING: {
        r"path /var/lib/prometheus": "metrics, and which alerts were silenced",
        OWNED: "metrics are this user's",
    },
    "login": {},
    COMPUTE: {},
}

Before = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cluster(sandbox_name: str) -> Iterator[tuple[Cluster, Before]]:
    """Return a cluster with snapshots of its bare hosts, and a waiting job."""
    one = Cluster(f"{sandbox_name}-servers")
    made = one.busbar("sandbox", "up", "--name", one.name, "--compute", "3")
    assert made.returncode == 0, made.stderr
    spread(one)
    before = {node: snapshot(one, node) for node in STAYS}
    provision(one)
    one.exec("login", "srun --mem=64 sh -c 'hostname >~/ran'; sbatch -H --job-name=waits --wrap hostname", user="alice")
    yield one, before
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def spread(one: Cluster) -> None:
    """Move the database and the monitoring to their own hosts."""
    path = one.inventory / "hosts.yml"
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))
    children = groups["all"]["children"]
    nodes = children["sandbox_gpu"]["hosts"]
    children["slurm_database"]["hosts"] = {DATABASE: nodes.pop(DATABASE)}
    children["monitoring"]["hosts"] = {MONITORING: nodes.pop(MONITORING)}
    path.write_text(yaml.safe_dump(groups, sort_keys=False), encoding="utf-8")


def provision(one: Cluster, *options: str) -> None:
    """Provision the site."""
    words = ("--sandbox", "--name", one.name, "-e", "validation_stages=node")
    done = one.busbar("provision", *words, *options, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


def waiting(one: Cluster) -> str:
    """Return the waiting jobs."""
    return one.exec("ctl", "squeue -h -o '%i %j %T'").stdout


def stands(one: Cluster) -> None:
    """Check that all daemons of the servers run."""
    assert "UP" in one.exec("ctl", "scontrol ping").stdout
    for node, units in {
        "ctl": "slurmctld munge",
        DATABASE: "slurmdbd mariadb munge",
        MONITORING: "prometheus prometheus-alertmanager",
    }.items():
        assert set(one.exec(node, f"systemctl is-active {units}", check=False).stdout.split()) == {"active"}, node


def test_server_needed_by_other_hosts_is_refused(cluster: tuple[Cluster, Before]) -> None:
    one, _before = cluster
    refused(one, ",".join((*SERVERS, "login")), f"ctl,gpu[2-3]: uninstall_nodes: serves {COMPUTE}, which", *LEAVES)
    for node in SERVERS:
        refused(one, node, f"{node}: uninstall_nodes: serves ", *LEAVES)
    stands(one)


def test_remaining_data_is_reported_with_a_backup_command(cluster: tuple[Cluster, Before]) -> None:
    one, _before = cluster
    done = uninstall(one, ",".join(STAYS))
    assert done.returncode == 2, done.stdout + done.stderr
    told = " ".join(done.stdout.split())
    said = "uninstall_leaves_data: would remain on the disk without a server"
    job = f"job {waiting(one).split()[0]} of alice"
    for node, what in (
        ("ctl", f"data in {DATA['ctl'][0]}, data in /shared, {job}"),
        (DATABASE, "data in /var/lib/mysql"),
        (MONITORING, f"data in {DATA[MONITORING][0]}"),
    ):
        assert f"{node}: {said}: {what}" in told, told
    assert "make a backup (busbar provision backup) and verify it (busbar backup verify)" in told
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
    stands(one)


def test_login_and_compute_node_are_restored_while_the_servers_run(cluster: tuple[Cluster, Before]) -> None:
    one, before = cluster
    done = uninstall(one, f"login,{COMPUTE}")
    assert done.returncode == 0, done.stdout + done.stderr
    for node in ("login", COMPUTE):
        assert unexplained(before[node], snapshot(one, node), STAYS[node] | KEPT) == [], node
    stands(one)
    assert "waits PENDING" in waiting(one)


def test_servers_are_restored_and_only_their_data_stays(cluster: tuple[Cluster, Before]) -> None:
    one, before = cluster
    nodes = ",".join(SERVERS)
    done = uninstall(one, nodes, *LEAVES)
    assert done.returncode == 0, done.stdout + done.stderr
    # The screen shows only the first host; the log contains all.
    log = Path(done.stdout.rpartition("log: ")[2].splitlines()[0]).read_text(encoding="utf-8")
    for node in SERVERS:
        assert unexplained(before[node], snapshot(one, node), STAYS[node] | KEPT) == [], node
        for path in DATA[node]:
            assert f"kept data {path}: never removed" in log
            assert one.exec(node, f"ls -A {path}").stdout, path
    assert one.exec("ctl", "cat /shared/home/alice/ran").stdout == f"{COMPUTE}\n"
    again = uninstall(one, ",".join(STAYS), *LEAVES)
    assert again.returncode == 0, again.stdout + again.stderr
    assert {counts["changed"] for counts in recap(again.stdout).values()} == {0}


def test_next_cluster_has_queue_accounting_and_metrics_of_the_former(cluster: tuple[Cluster, Before]) -> None:
    one, _before = cluster
    provision(one, "--skip-tags", "validation_run")
    stands(one)
    # The saved queue also contains the drain of the removed node.
    assert "busbar: leaves the cluster" in one.exec("ctl", f"scontrol show node {COMPUTE}").stdout
    assert "waits PENDING" in waiting(one)
    assert "COMPLETED" in one.exec("ctl", "sacct -a -nX -o JobName,State --name=sh").stdout
    assert int(rows(one, DATABASE).split()[0]) >= 2
    one.exec("ctl", f"scontrol update nodename={COMPUTE} state=resume")
    assert one.exec("login", "srun hostname", user="alice").stdout == f"{COMPUTE}\n"
