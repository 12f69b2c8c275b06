"""Tests of accounting and database failures during a change: reported, nothing is lost, the next run heals."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from fault_results import note
from faulted import REAL, Work, instead, is_said, prove_rest, provision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm", "mariadb")

PLAIN = ("slurm", "-t", "mariadb,slurm_database,slurm_accounting", "--limit", "ctl")
ACCOUNTS = '{"slurm_accounts": [{"name": "research", "description": "Research"}, {"name": "vision"}]}'
CHANGE = ("slurm", "-t", "slurm_accounting", "--limit", "ctl", "-e", ACCOUNTS)


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


@pytest.fixture(autouse=True)
def without_account(sandbox: Cluster) -> Iterator[None]:
    """Delete the new account after the test."""
    yield
    sandbox.exec("ctl", "systemctl start mariadb slurmdbd")
    gone = "sacctmgr -i delete account vision; ! sacctmgr -nP show account format=account | grep -qx vision"
    sandbox.wait_until(lambda: sandbox.exec("ctl", gone, check=False).returncode == 0, "the account stays")


def accounts(sandbox: Cluster) -> list[str]:
    return sandbox.exec("ctl", "sacctmgr -nP show account format=account").stdout.split()


def heal(sandbox: Cluster, work: Work) -> int:
    """Check that a plain run heals and nothing is lost; return its duration in seconds."""
    began = time.monotonic()
    healed = provision(sandbox, *PLAIN)
    healed_s = round(time.monotonic() - began)
    assert healed.returncode == 0, healed.stdout + healed.stderr
    sandbox.exec("ctl", "systemctl is-active mariadb slurmdbd")
    work.is_whole()
    return healed_s


@pytest.mark.fault(
    "slurmdbd goes down during a change",
    says="ctl: …sacctmgr add account vision…remedy: slurmdbd does not answer",
    heals="nothing",
)
def test_change_without_slurmdbd_is_reported_and_the_next_run_starts_it(sandbox: Cluster, work: Work) -> None:
    began = time.monotonic()
    with instead(sandbox, "sacctmgr", "-i", f"systemctl stop slurmdbd; exec {REAL}"):
        done = provision(sandbox, *CHANGE)
    told_s = round(time.monotonic() - began)
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert is_said("ctl: …sacctmgr add account vision…remedy: slurmdbd does not answer", output), output
    assert "Traceback" not in output
    note("runs", "slurmdbd goes down during a change", {"told_s": told_s, "healed_s": heal(sandbox, work)})
    # A repeated run makes the change.
    done = provision(sandbox, *CHANGE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vision" in accounts(sandbox)


@pytest.mark.fault(
    "the database goes down during a change",
    says="ctl: …sacctmgr add account vision…remedy: slurmdbd does not answer",
    heals="nothing",
)
def test_change_without_database_is_reported_and_the_next_run_starts_it(sandbox: Cluster, work: Work) -> None:
    began = time.monotonic()
    with instead(sandbox, "sacctmgr", "-i", f"systemctl stop mariadb; exec {REAL}"):
        done = provision(sandbox, *CHANGE)
    told_s = round(time.monotonic() - began)
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert is_said("ctl: …sacctmgr add account vision…remedy: slurmdbd does not answer", output), output
    note("runs", "the database goes down during a change", {"told_s": told_s, "healed_s": heal(sandbox, work)})
    assert "vision" not in accounts(sandbox)


@pytest.mark.fault(
    "the database is restarted during a change",
    says="slurm : accounting | Apply the declared accounts, users, QOS and limits changed=1",
    heals="nothing: slurmdbd connects again, and the run goes on",
)
def test_change_survives_a_restart_of_the_database(sandbox: Cluster, work: Work) -> None:
    began = time.monotonic()
    with instead(sandbox, "sacctmgr", "-i", f"systemctl restart mariadb; exec {REAL}"):
        done = provision(sandbox, *CHANGE)
    healed_s = round(time.monotonic() - began)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert is_said("slurm : accounting | Apply the declared accounts, users, QOS and limits changed=1", output), output
    assert "vision" in accounts(sandbox)
    prove_rest(sandbox, *CHANGE)
    sandbox.exec("ctl", "sacctmgr -i delete account vision")
    work.is_whole()
    note("runs", "the database is restarted during a change", {"healed_s": healed_s})


def test_run_after_all_faults_changes_nothing(sandbox: Cluster, work: Work) -> None:
    prove_rest(sandbox, *PLAIN)
    work.is_whole()
