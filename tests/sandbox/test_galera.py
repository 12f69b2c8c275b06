"""Three hosts with one accounting: each is lost in its own way, under jobs that come in, and none of these is."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

import pytest
import yaml
from conftest import Cluster, recap, succeeded
from prometheus_api import Prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.proves("mariadb", "slurm", "slurm_metrics", "backup")]

HOSTS = ("db1", "db2", "db3")
LOOP, SENT = "/shared/submit", "/shared/submitted.txt"
SUBMITS = f"""#!/bin/bash
while [ -e {LOOP} ]; do
    name=n$(date +%s%N)
    sbatch --parsable --job-name="$name" --mem=16 -n1 -o /dev/null --wrap true >/dev/null && echo "$name" >>{SENT}
    sleep 1
done
"""
CUT = """
table inet cut {
    chain in { type filter hook input priority 0; iifname != "lo" drop; }
    chain out { type filter hook output priority 0; oifname != "lo" drop; }
}"""
# Without a start, sacct shows the jobs of today.
JOBS = "-a -nX -S now-2days"
COUNTED = "SELECT COUNT(*) FROM slurm_acct_db.\\`{}_job_table\\`"


@pytest.fixture(scope="module")
def cluster(sandbox_name: str) -> Iterator[Cluster]:
    """A sandbox whose accounting lies on three hosts of its own."""
    one = Cluster(f"{sandbox_name}-galera")
    make(one)
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def make(one: Cluster) -> None:
    """Make the sandbox with three databases, and have a job accounted."""
    made = one.busbar("sandbox", "up", "--name", one.name, "--databases", "3", "--compute", "1", "--gpus", "1")
    assert made.returncode == 0, made.stderr
    for playbook in ("base.yml", "slurm.yml"):
        succeeded(one.playbook(playbook, timeout=1800))
    # A question that accounting answers with nothing at all is no proof that it reached the database.
    one.exec("login", "srun --mem=16 -n1 -J first true", user="alice")
    one.wait_until(lambda: accounted(one).get("first") == "COMPLETED", "a job is not accounted", 120)


def sql(one: Cluster, node: str, query: str) -> str:
    """What MariaDB of a host answers; empty where it does not."""
    return one.exec(node, f'mariadb -N -B -e "{query}"', check=False).stdout.strip()


def members(one: Cluster, *nodes: str) -> list[str]:
    """How many members each host sees, with what it is itself."""
    asked = "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_size','wsrep_cluster_status')"
    return [" ".join(sql(one, node, asked).split()[1::2]) for node in nodes]


def all_are_members(one: Cluster) -> bool:
    return members(one, *HOSTS) == ["3 Primary"] * 3


def sent(one: Cluster) -> list[str]:
    return one.exec("login", f"cat {SENT}", check=False).stdout.split()


def accounted(one: Cluster) -> dict[str, str]:
    lines = one.exec("login", f"sacct {JOBS} -P -o JobName,State", check=False, timeout=90).stdout.split()
    return dict(line.split("|") for line in lines if "|" in line)


@contextlib.contextmanager
def submitting(one: Cluster, record: Callable[[str, object], None]) -> Iterator[None]:
    """While this goes on, alice submits a job each second; at the end each has run and is accounted."""
    one.exec("login", f"cat >/shared/submit.sh <<'END'\n{SUBMITS}END\nrm -f {SENT}; touch {LOOP}", user="alice")
    one.exec("login", "setsid bash /shared/submit.sh >/shared/submit.log 2>&1 &", user="alice")
    one.wait_until(lambda: len(sent(one)) >= 5, "nothing is submitted", 120)
    try:
        yield
        before = len(sent(one))
        one.wait_until(lambda: len(sent(one)) > before + 3, "nothing is submitted any more", 120)
    finally:
        one.exec("login", f"rm {LOOP}", user="alice")
    one.wait_until(lambda: "submit.sh" not in one.exec("login", "ps -eo args").stdout, "the loop goes on", 120)
    jobs = sent(one)

    def ended() -> bool:
        states = accounted(one)
        return all(states.get(name) == "COMPLETED" for name in jobs)

    one.wait_until(ended, "not all that was submitted is accounted as completed", 480)
    record("submitted", len(jobs))
    record("accounted", len(set(jobs) & set(accounted(one))))


def accounting_answers(one: Cluster) -> bool:
    """Whether a question reaches the database; an answer of slurmdbd's memory is none."""
    asked = f"timeout 60 sacct {JOBS} -o JobID | head -1"
    return one.exec("login", asked, check=False, timeout=90).stdout.strip() != ""


def same_everywhere(one: Cluster) -> bool:
    counts = {sql(one, node, COUNTED.format(one.name)) for node in HOSTS}
    return len(counts) == 1 and counts != {""}


def test_three_are_one_and_nothing_changes_any_more(cluster: Cluster) -> None:
    assert all_are_members(cluster)
    for node, active in (("db1", "active"), ("db2", "active"), ("db3", "inactive")):
        assert cluster.exec(node, "systemctl is-active slurmdbd", check=False).stdout.strip() == active
    for arguments in ((), ("--check",), ("--limit", "db2")):
        done = cluster.playbook("slurm.yml", *arguments)
        succeeded(done)
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]


def test_replication_is_encrypted_and_a_stranger_gets_nothing(cluster: Cluster) -> None:
    options = sql(cluster, "db1", "SHOW VARIABLES LIKE 'wsrep_provider_options'")
    assert "socket.ssl = YES" in options
    said = "openssl s_client -connect db1:4567 -CAfile /etc/busbar/tls/ca.crt </dev/null 2>&1"
    assert "Verify return code: 0 (ok)" in cluster.exec("db2", said, check=False).stdout
    # As db3, of whom the first members have sent all data once.
    assert "Verifying peer certificate chain" in cluster.exec("db3", "journalctl -u mariadb -o cat").stdout
    assert sql(cluster, "db1", "SELECT COUNT(*) FROM mysql.wsrep_allowlist") == "3"


def test_a_database_that_is_killed_loses_no_job(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    cluster.exec("db1", "systemctl mask --runtime mariadb")
    try:
        with submitting(cluster, record_property):
            cluster.exec("db1", "pkill -KILL -x mariadbd")
            began = time.monotonic()
            cluster.wait_until(lambda: members(cluster, "db2", "db3") == ["2 Primary"] * 2, "no majority is left", 60)
            cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)
            record_property("accounting answers after, s", round(time.monotonic() - began))
    finally:
        cluster.exec("db1", "systemctl unmask --runtime mariadb; systemctl start mariadb", timeout=300)
    cluster.wait_until(lambda: all_are_members(cluster), "the killed one does not come back", 120)
    # Its slurmdbd had ended with it, and comes with it.
    up = lambda: cluster.exec("db1", "systemctl is-active slurmdbd", check=False).stdout == "active\n"  # noqa: E731
    cluster.wait_until(up, "slurmdbd does not come back", 60)
    assert same_everywhere(cluster)


def test_a_host_without_network_loses_no_job(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    # Its MariaDB and its slurmdbd live on, reach each other, and must write nothing.
    cluster.exec("db1", "command -v nft >/dev/null || apt-get install -qq -y nftables >/dev/null", timeout=120)
    with submitting(cluster, record_property):
        cluster.exec("db1", f"nft -f - <<'END'\n{CUT}\nEND")
        began = time.monotonic()
        try:
            cluster.wait_until(lambda: members(cluster, "db2", "db3") == ["2 Primary"] * 2, "no majority is left", 90)
            cluster.wait_until(lambda: members(cluster, "db1") == ["1 non-Primary"], "the other side goes on", 90)
            cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 180)
            record_property("accounting answers after, s", round(time.monotonic() - began))
        finally:
            cluster.exec("db1", "nft delete table inet cut")
        cluster.wait_until(lambda: all_are_members(cluster), "it does not come back", 120)
    assert same_everywhere(cluster)


def test_no_second_cluster_is_started_while_hosts_are_away(cluster: Cluster) -> None:
    for node in HOSTS:
        cluster.exec(node, "systemctl stop mariadb", timeout=120)
    done = cluster.playbook("slurm.yml", "--limit", "db1", "--tags", "mariadb")
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "did not become a member of a majority" in said) == (2, True), said[-3000:]
    assert "--limit" in said
    assert sql(cluster, "db1", "SELECT 1") == ""


def test_all_of_them_stopped_in_order_are_started_by_the_play(cluster: Cluster) -> None:
    """The one that stopped last has everything, and says so."""
    for node in HOSTS:
        cluster.exec(node, "systemctl stop mariadb", timeout=120)
    noted = "grep -c 'safe_to_bootstrap: 1' /var/lib/mysql/grastate.dat"
    assert [cluster.exec(node, noted, check=False).stdout.strip() for node in HOSTS] == ["0", "0", "1"]
    done = cluster.playbook("slurm.yml", "--limit", "slurm_database", "--tags", "mariadb")
    succeeded(done)
    assert "changed: [db3]" in done.stdout[done.stdout.index("Start the cluster on the host that has all data") :]
    assert all_are_members(cluster)


def test_all_of_them_killed_are_started_by_the_play(cluster: Cluster) -> None:
    """Nobody was the last one: the play counts what each has."""
    for node in HOSTS:
        cluster.exec(node, "systemctl mask --runtime mariadb")
    for node in HOSTS:
        cluster.exec(node, "pkill -KILL -x mariadbd; rm -f /var/lib/mysql/gvwstate.dat")
    for node in HOSTS:
        cluster.exec(node, "systemctl unmask --runtime mariadb; systemctl reset-failed mariadb")
    done = cluster.playbook("slurm.yml", "--limit", "slurm_database", "--tags", "mariadb")
    succeeded(done)
    assert all_are_members(cluster)
    assert same_everywhere(cluster)
    cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)


def counted(prometheus: Prometheus) -> list[float]:
    """How many hosts each of them sees, as Prometheus has it."""
    return sorted(value for _, value in prometheus.query("busbar_slurm_database_cluster_hosts"))


def test_each_host_counts_and_one_that_is_missing_is_told(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    soon = {"prometheus_alerts": {"DatabaseClusterDegraded": {"for": "5s"}, "ClockNotSynchronised": {"enabled": False}}}
    done = cluster.playbook("monitoring.yml", "-e", json.dumps(soon), timeout=1800)
    succeeded(done)
    prometheus = Prometheus(cluster.name)
    fires = 'ALERTS{alertname="DatabaseClusterDegraded",alertstate="firing"}'
    prometheus.wait(lambda: counted(prometheus) == [3.0] * 3, "not each host counts three", 120)
    assert prometheus.query(fires) == []
    cluster.exec("db3", "systemctl stop mariadb", timeout=120)
    try:
        told = prometheus.wait(lambda: prometheus.value(fires) is not None, "no alert", 180)
        assert counted(prometheus) == [0.0, 2.0, 2.0]
        record_property("alert after, s", round(told))
    finally:
        cluster.exec("db3", "systemctl start mariadb", timeout=300)
    prometheus.wait(lambda: prometheus.value(fires) is None, "the alert stays", 180)


def test_what_cannot_be_a_cluster_is_refused_before_anything_changes(cluster: Cluster) -> None:
    for variables, told in (
        ({"slurm_database_storage_host": "elsewhere"}, "would leave the cluster unused"),
        ({"mariadb_hosts": ["db1", "db2"]}, "needs 3 hosts in slurm_database, and 2 are in it"),
        ({"mariadb_hosts": ["db1", "db2", "db3", "ctl"]}, "needs 3 hosts in slurm_database, and 4 are in it"),
    ):
        done = cluster.playbook("preflight.yml", "--tags", "mariadb", "-e", json.dumps(variables))
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, told in said) == (2, True), said[-3000:]
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    done = cluster.playbook("preflight.yml", "--tags", "mariadb")
    succeeded(done)


def test_a_plain_run_after_all_that_changes_nothing(cluster: Cluster) -> None:
    done = cluster.playbook("slurm.yml")
    succeeded(done)
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]


def test_a_slurmdbd_that_gave_control_back_ends_when_it_is_told_to(cluster: Cluster) -> None:
    serves, log = "ss -Hltn 'sport = :6819'", "tail -n 2 /var/log/slurm/slurmdbd.log"
    cluster.exec("db1", "systemctl stop slurmdbd", timeout=120)
    cluster.wait_until(lambda: cluster.exec("db2", serves).stdout != "", "db2 does not take over")
    cluster.exec("db1", "systemctl start slurmdbd")
    cluster.wait_until(lambda: "given up control" in cluster.exec("db2", log).stdout, "db2 does not give up control")
    cluster.exec("db2", "systemctl stop slurmdbd", timeout=60)
    cluster.exec("db2", "systemctl start slurmdbd")


def test_new_secrets_where_one_host_has_a_database_only(cluster: Cluster) -> None:
    words = (
        "rotate_secrets",
        "-i",
        str(cluster.inventory),
        "-e",
        json.dumps({"rotate_secrets": ["munge", "slurm_database"]}),
    )
    before = cluster.exec("db3", "sha256sum /etc/munge/munge.key").stdout
    succeeded(cluster.busbar("provision", *words, timeout=1800))
    keys = {cluster.exec(node, "sha256sum /etc/munge/munge.key").stdout for node in ("ctl", "gpu1", *HOSTS)}
    assert (len(keys), before in keys) == (1, False)
    for node, active in (("db1", "active"), ("db2", "active"), ("db3", "inactive")):
        assert cluster.exec(node, "systemctl is-active slurmdbd", check=False).stdout.strip() == active
    cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)


@contextlib.contextmanager
def one_database(one: Cluster) -> Iterator[tuple[str, str]]:
    """While this goes on, the inventory has one host with a database; with these arguments it is no cluster."""
    inventory = one.inventory / "hosts.yml"
    three = inventory.read_text()
    site = yaml.safe_load(three)
    group = site["all"]["children"]["slurm_database"]
    group["hosts"] = {"db1": group["hosts"]["db1"]}
    inventory.write_text(yaml.safe_dump(site))
    try:
        yield "-e", "mariadb_cluster=false"
    finally:
        inventory.write_text(three)


def refused_plan(one: Cluster, *arguments: str) -> str:
    """What a run on the databases says that is refused before anything changes."""
    done = one.playbook("slurm.yml", "--limit", "slurm_database", "--tags", "mariadb", *arguments)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said[-3000:]
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]
    return said


def switch_backups_on(one: Cluster) -> None:
    """Let the site keep its snapshots on the login node."""
    saving = "backup_enabled: true\nbackup_host: login\nbackup_site_folder: false\n"
    (one.inventory / "group_vars" / "all" / "backup.yml").write_text(saving)


def test_one_database_becomes_three_when_it_is_saved(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """And three become one before, as docs/failover.md says: the other two are former members with data."""
    before = accounted(cluster)
    for node in HOSTS[1:]:
        cluster.exec(node, "systemctl disable --now mariadb", timeout=120)
    with one_database(cluster) as alone:
        done = cluster.playbook("slurm.yml", *alone)
    succeeded(done)
    assert sql(cluster, "db1", "SELECT @@wsrep_on") == "0"
    cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)
    cluster.exec("login", "sbatch --mem=16 -n1 -J alone -o /dev/null --wrap true", user="alice")
    cluster.wait_until(lambda: accounted(cluster).get("alone") == "COMPLETED", "a job is not accounted", 120)

    assert "left others on db2, db3: only one of the two can be kept" in refused_plan(cluster)
    for node in HOSTS[1:]:
        cluster.exec(node, "mv /var/lib/mysql /var/lib/mysql.former")
    assert "no snapshot of it from the last 24 hours" in refused_plan(cluster)
    switch_backups_on(cluster)
    with one_database(cluster) as alone:
        done = cluster.busbar("provision", "backup", "-i", str(cluster.inventory), *alone, timeout=1800)
    succeeded(done)

    began = time.monotonic()
    done = cluster.playbook("slurm.yml")
    succeeded(done)
    record_property("from one to three, s", round(time.monotonic() - began))
    assert all_are_members(cluster)
    assert same_everywhere(cluster)
    cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)
    assert (before | {"alone": "COMPLETED"}).items() <= accounted(cluster).items()


def test_a_cluster_is_restored_whole(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    """Onto three hosts with a cluster of later, which is moved aside."""
    switch_backups_on(cluster)
    done = cluster.busbar("provision", "backup", "-i", str(cluster.inventory), timeout=1800)
    succeeded(done)
    saved = accounted(cluster)
    assert saved["first"] == "COMPLETED"
    cluster.exec("login", "sbatch --mem=16 -n1 -J later -o /dev/null --wrap true", user="alice")
    cluster.wait_until(lambda: accounted(cluster).get("later") == "COMPLETED", "a job is not accounted", 120)
    began = time.monotonic()
    restore = ("restore", "-i", str(cluster.inventory), "-e", "restore_replace=true")
    done = cluster.busbar("provision", *restore, timeout=2400)
    succeeded(done)
    record_property("restored after, s", round(time.monotonic() - began))
    assert all_are_members(cluster)
    assert same_everywhere(cluster)
    cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)
    found = accounted(cluster)
    assert saved.items() <= found.items()
    assert "later" not in found
    assert cluster.exec("db1", "ls /var/lib/busbar-backup/*.sql* | wc -l").stdout.strip() != "0"
