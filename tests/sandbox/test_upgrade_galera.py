"""Accounting on three hosts: Slurm is upgraded, and its database converted on all of them, while jobs come in."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from conftest import Cluster, recap, succeeded
from test_galera import (
    HOSTS,
    accounted,
    accounting_answers,
    all_are_members,
    make,
    members,
    same_everywhere,
    submitting,
)
from test_upgrade_slurm import DBD, FOLDER, NEW, OLD, RELEASE, WITHOUT, release, rows, upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.proves("slurm", "mariadb")

SLURMDBD = HOSTS[:2]
LAST = HOSTS[2]


@pytest.fixture(scope="module")
def cluster(sandbox_name: str) -> Iterator[Cluster]:
    """A sandbox whose accounting lies on three hosts of its own, with a job in it."""
    one = Cluster(f"{sandbox_name}-upgrade3")
    make(one)
    (one.inventory / "group_vars/all/upgrade.yml").write_text(json.dumps(RELEASE), encoding="utf-8")
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def active(one: Cluster) -> list[str]:
    """Whether slurmdbd runs, of each host."""
    return [one.exec(node, "systemctl is-active slurmdbd", check=False).stdout.strip() for node in HOSTS]


def test_the_plan_has_the_hosts_that_run_slurmdbd(cluster: Cluster) -> None:
    code, said, output = upgrade(cluster, *WITHOUT, "--check")
    assert code == 0, said
    assert re.search(r"1\. slurmdbd of db\[1-2\]: 24\.11\.5\S* -> 26\.05", said), said
    assert f"the database is dumped into {FOLDER} on db1" in said
    assert {counts["changed"] for counts in recap(output).values()} == {0}


def test_a_new_slurmdbd_that_does_not_start_is_rolled_back_on_all_three(cluster: Cluster) -> None:
    before, jobs = {rows(cluster, node) for node in HOSTS}, accounted(cluster)
    assert len(before) == 1
    cluster.exec("db1", f"cp -p {DBD} {DBD}.sound; echo NoSuchKey=1 >>{DBD}")
    code, said, _ = upgrade(cluster, *WITHOUT)
    assert (code, "The new slurmdbd does not start" in said) == (2, True), said
    cluster.exec("db1", f"mv {DBD}.sound {DBD}")
    code, said, _ = upgrade(cluster, "-e", "upgrade_slurm_rollback=true")
    assert code == 0, said
    assert {release(cluster, node, "slurmdbd -V") for node in SLURMDBD} == {OLD}
    assert active(cluster) == ["active", "active", "inactive"]
    assert all_are_members(cluster)
    assert {rows(cluster, node) for node in HOSTS} == before
    cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)
    assert accounted(cluster) == jobs


def test_all_are_upgraded_while_jobs_come_in(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    with submitting(cluster, record_property):
        code, said, _ = upgrade(cluster, *WITHOUT)
        assert code == 0, said
    for note in re.findall(r"\w+: slurm\w+ (?:stood still for|was away for) \d+ s", said):
        record_property("pause", note)
    assert {release(cluster, node, "slurmdbd -V") for node in SLURMDBD} == {NEW}
    assert {release(cluster, "ctl", "slurmctld -V"), release(cluster, "gpu1", "slurmd -V")} == {NEW}
    assert active(cluster) == ["active", "active", "inactive"]
    assert all_are_members(cluster)
    assert same_everywhere(cluster)
    assert accounted(cluster)["first"] == "COMPLETED"


def test_the_converted_database_outlives_the_first_host(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    cluster.exec("db1", "systemctl mask --runtime mariadb")
    try:
        with submitting(cluster, record_property):
            cluster.exec("db1", "pkill -KILL -x mariadbd")
            cluster.wait_until(lambda: members(cluster, "db2", LAST) == ["2 Primary"] * 2, "no majority is left", 60)
            cluster.wait_until(lambda: accounting_answers(cluster), "accounting does not answer", 120)
    finally:
        cluster.exec("db1", "systemctl unmask --runtime mariadb; systemctl start mariadb", timeout=300)
    cluster.wait_until(lambda: all_are_members(cluster), "the killed one does not come back", 120)
    assert same_everywhere(cluster)


def test_neither_a_second_upgrade_nor_a_site_run_changes_anything(cluster: Cluster) -> None:
    for name in ("upgrade_slurm.yml", "slurm.yml"):
        done = cluster.playbook(name)
        succeeded(done)
        assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]
