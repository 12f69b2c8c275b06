"""Tests of `busbar user` with the cluster's own directory: real slapd and sssd, a home, a login, a job, the journal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ldap_directory import SUFFIX, by_key, given

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("ldap_server", "sssd", "slurm")

NUMBER = 20201


def _user(sandbox: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return sandbox.busbar("user", *words, "--sandbox", "--name", sandbox.name, *given())


def _entries(sandbox: Cluster) -> str:
    return sandbox.exec("ctl", "slapcat -o ldif-wrap=no | grep -v -e entryCSN -e contextCSN -e modify").stdout


@pytest.fixture(scope="module")
def grace(directory: Cluster, directory_key: Path) -> Iterator[Cluster]:
    """Return a directory with the user grace, which a dry run did not add."""
    before = _entries(directory)
    words = ["add", "grace", "--number", str(NUMBER), "--full-name", "Grace Example", "--account", "research"]
    words += ["--key", str(directory_key.with_suffix(".pub"))]
    dry = _user(directory, *words, "--dry-run")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert f"would do: add grace with UID {NUMBER}" in dry.stdout
    assert _entries(directory) == before
    done = _user(directory, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    yield directory
    directory.exec("ctl", "scancel --user=grace; sacctmgr -i delete user grace; rm -rf /shared/home/grace; true")


@pytest.mark.scenario
def test_new_user_logs_in_and_runs_a_job(grace: Cluster, directory_key: Path) -> None:
    assert grace.exec("ctl", "stat -c '%U %a' /shared/home/grace").stdout == "grace 700\n"
    assert by_key(grace, "grace", directory_key).stdout == "grace\n"
    assert grace.exec("ctl", "sacctmgr -nP show assoc user=grace format=account").stdout == "research\n"
    grace.wait_until(
        lambda: grace.exec("login", "srun id -un", user="grace", check=False).stdout == "grace\n", "no job runs", 120
    )
    said = grace.exec("ctl", "journalctl -t busbar-user -o cat").stdout
    assert f"add grace with UID {NUMBER}" in said


def test_existing_user_is_left_unchanged(grace: Cluster) -> None:
    before = _entries(grace)
    again = _user(grace, "add", "grace", "--number", str(NUMBER))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "changed=" not in again.stderr
    assert _entries(grace) == before
    listed = {one["name"]: one for one in json.loads(_user(grace, "list", "--format", "json").stdout)}
    assert listed["grace"]["groups"] == ["cluster-users"]
    assert listed["alice"]["source"] == "users_accounts"


def test_conflicts_are_refused_with_both_sides(grace: Cluster, tmp_path: Path) -> None:
    before = _entries(grace)
    table = tmp_path / "users.csv"
    table.write_text(f"name,number\nheidi,\nalice,\nivan,{NUMBER}\njudy,2002\n")
    refused = _user(grace, "import", str(table))
    assert refused.returncode == 2, refused.stdout + refused.stderr
    words = " ".join(refused.stderr.split())
    for said in (
        "alice exists in users_accounts with UID 2001",
        f"ivan: UID {NUMBER} is taken by grace in the directory",
        "judy: UID 2002 is taken by bob",
    ):
        assert said in words
    unknown = _user(grace, "lock", "gracy")
    assert (unknown.returncode, "did you mean grace?" in unknown.stderr) == (2, True)
    assert _entries(grace) == before


def test_lock_prevents_logins(grace: Cluster, directory_key: Path) -> None:
    assert _user(grace, "lock", "grace").returncode == 0
    grace.wait_until(lambda: by_key(grace, "grace", directory_key).returncode == 255, "grace is not locked")
    assert _user(grace, "unlock", "grace").returncode == 0
    grace.wait_until(lambda: by_key(grace, "grace", directory_key).stdout == "grace\n", "grace is still locked")


def test_user_with_a_job_is_removed_after_it_ends(grace: Cluster) -> None:
    job = grace.exec("login", "sbatch --parsable --wrap 'sleep 600'", user="grace").stdout.strip()
    refused = _user(grace, "remove", "grace")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert f"job {job}" in refused.stderr
    assert "dn: uid=grace" in _entries(grace)
    grace.exec("ctl", f"scancel {job}")
    done = _user(grace, "remove", "grace", "--wait", "120")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"uid=grace,ou=people,{SUFFIX}" not in _entries(grace)
    assert "memberUid: grace" not in _entries(grace)
    assert grace.exec("ctl", "sacctmgr -nP show assoc user=grace format=account").stdout == ""
    assert grace.exec("ctl", "stat -c %u /shared/home/grace").stdout == f"{NUMBER}\n"
