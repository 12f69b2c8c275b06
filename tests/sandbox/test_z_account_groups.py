"""Tests of Slurm with directory users: logins to compute nodes, and groups that grant accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import Cluster, recap
from ldap_directory import SUFFIX, change, given, member, nodes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.proves("slurm")

GROUP = "physics"
DECLARED = {
    "slurm_accounts": [{"name": "research", "description": "Research"}, {"name": "physics"}],
    "slurm_account_groups": [{"group": GROUP, "account": "physics", "limits": {"MaxJobs": 4}, "coordinator": True}],
    "slurm_admin_groups": [{"group": GROUP, "level": "Operator"}],
}
ONLY = ("--limit", "ctl", "--tags", "slurm_accounting")
FAILED, REFUSED = 1, 3


def compare(sandbox: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    return sandbox.exec("ctl", " ".join(["busbar-account-groups", *options]), check=False)


def associations(sandbox: Cluster) -> list[str]:
    query = "sacctmgr -nP show associations account=physics format=User,MaxJobs,MaxSubmitJobs"
    return sorted(line for line in sandbox.exec("ctl", query).stdout.split() if not line.startswith("|"))


def rights(sandbox: Cluster) -> tuple[str, list[str]]:
    """Return the coordinators of the account, and the users with rights in Slurm."""
    coordinators = sandbox.exec("ctl", "sacctmgr -nP show account physics withcoord format=Coordinators").stdout
    users = sandbox.exec("ctl", "sacctmgr -nP show user format=User,AdminLevel").stdout.split()
    return coordinators.strip().strip("|"), [line for line in users if line.startswith(("erin", "frank"))]


def metric(sandbox: Cluster, name: str) -> float:
    text = sandbox.exec("ctl", "cat /var/lib/prometheus/node-exporter/busbar_account_groups.prom").stdout
    return next(
        float(line.split()[1]) for line in text.splitlines() if line.startswith(f"busbar_account_groups_{name} ")
    )


def submit_as(sandbox: Cluster, user: str, command: str) -> subprocess.CompletedProcess[str]:
    return sandbox.exec("login", f"cd /tmp && sbatch --parsable -A physics --wrap '{command}'", user=user, check=False)


@pytest.mark.scenario
def test_declared_users_still_need_a_job_on_a_compute_node(directory: Cluster) -> None:
    ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10 gpu1 true"
    for user in ("alice", "bob"):
        done = directory.exec("login", ssh, user=user, check=False)
        assert (done.returncode, "you have no active jobs on this node" in done.stderr) == (255, True), done.stderr


@pytest.fixture(scope="module")
def mapped(directory: Cluster) -> Iterator[Cluster]:
    """Map the directory's group physics, which contains erin, to the account physics."""
    change(
        directory,
        f"dn: cn={GROUP},ou=groups,{SUFFIX}\nobjectClass: posixGroup\ngidNumber: 20060\nmemberUid: erin\n\n",
        tool="ldapadd",
    )
    arguments = [*ONLY, *given(**DECLARED)]
    try:
        dry = directory.playbook("slurm.yml", "--check", "--diff", *arguments)
        assert dry.returncode == 0, dry.stdout + dry.stderr
        assert directory.exec("ctl", "ls /etc/busbar/account_groups.json", check=False).returncode != 0
        done = directory.playbook("slurm.yml", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        again = directory.playbook("slurm.yml", *arguments)
        assert recap(again.stdout)["ctl"]["changed"] == 0, again.stdout
        yield directory
    finally:
        gone = [*ONLY, *given(slurm_accounts=DECLARED["slurm_accounts"])]
        back = directory.playbook("slurm.yml", *gone)
        directory.exec(
            "ctl", "scancel --account=physics; sacctmgr -i delete user erin,frank account=physics", check=False
        )
        directory.exec("ctl", "sacctmgr -i delete account physics; rm -rf /var/lib/busbar-account-groups", check=False)
        directory.exec("ctl", f"ldapdelete -Q -Y EXTERNAL -H ldapi:/// cn={GROUP},ou=groups,{SUFFIX}", check=False)
        # sssd caches entries for minutes; the following tests need the current directory.
        for node in nodes(directory):
            directory.exec(node, "sss_cache -E")
        assert back.returncode == 0, back.stdout
        units = directory.exec("ctl", "systemctl list-unit-files 'busbar-account-groups*' --no-legend", check=False)
        assert units.stdout == ""


@pytest.mark.scenario
def test_group_member_has_the_account_after_the_run(mapped: Cluster) -> None:
    assert associations(mapped) == ["erin|4|"]
    assert mapped.exec("ctl", "systemctl is-active busbar-account-groups.timer").stdout == "active\n"
    assert submit_as(mapped, "erin", "true").returncode == 0
    refused = submit_as(mapped, "frank", "true")
    assert refused.returncode != 0
    assert "Invalid account" in refused.stderr


@pytest.mark.scenario
def test_group_member_coordinates_the_account_and_operates_slurm(mapped: Cluster) -> None:
    assert rights(mapped) == ("erin", ["erin|Operator"])
    made = "scontrol create reservation=hers starttime=now+1hour duration=1 nodecnt=1 users=erin"
    assert (
        "Reservation created: hers"
        in mapped.exec("login", f"{made} && scontrol delete reservation=hers", user="erin").stdout
    )
    mapped.exec("login", "sacctmgr -i modify user where name=erin account=physics set GrpJobs=3", user="erin")
    limit = "sacctmgr -nP show associations user=erin account=physics format=GrpJobs"
    assert mapped.exec("ctl", limit).stdout == "3\n"
    assert compare(mapped).returncode == 0
    assert mapped.exec("ctl", limit).stdout == "\n"


def test_new_member_gets_the_account_and_dry_run_changes_nothing(mapped: Cluster) -> None:
    change(mapped, member(GROUP, "frank"))
    said = compare(mapped, "--dry-run")
    assert (said.returncode, associations(mapped)) == (0, ["erin|4|"]), said.stderr
    assert "would: frank is in physics: gets the account physics" in said.stdout
    assert compare(mapped).returncode == 0
    assert associations(mapped) == ["erin|4|", "frank|4|"]
    assert submit_as(mapped, "frank", "true").returncode == 0
    assert metric(mapped, "members") == len(["erin", "frank"])
    assert compare(mapped).stdout == "0 of 0 changes\n"


def test_unavailable_directory_removes_nobody(mapped: Cluster) -> None:
    mapped.exec("ctl", "systemctl stop slapd")
    try:
        done = compare(mapped)
        assert (done.returncode, associations(mapped)) == (FAILED, ["erin|4|", "frank|4|"])
        assert "the directory does not answer (" in done.stderr
        assert metric(mapped, "last_run_failed") == 1
    finally:
        mapped.exec("ctl", "systemctl start slapd")
    mapped.wait_until(lambda: compare(mapped).returncode == 0, "slapd is not back", 60)
    assert metric(mapped, "last_run_failed") == 0


def test_unavailable_accounting_is_reported(mapped: Cluster) -> None:
    mapped.exec("ctl", "systemctl stop slurmdbd")
    try:
        done = compare(mapped)
        assert done.returncode == FAILED
        assert "`sacctmgr -nP show cluster` failed (" in done.stderr, done.stderr
        assert "Nothing was changed." in done.stderr
    finally:
        mapped.exec("ctl", "systemctl start slurmdbd")
    mapped.wait_until(lambda: compare(mapped).returncode == 0, "slurmdbd is not back", 60)


def test_removed_member_keeps_running_jobs_and_cannot_submit(mapped: Cluster) -> None:
    job = submit_as(mapped, "frank", "sleep 600").stdout.strip()
    state = f"squeue -h -j {job} -o %T"
    mapped.wait_until(lambda: mapped.exec("ctl", state).stdout == "RUNNING\n", "the job does not run", 60)
    change(mapped, member(GROUP, "frank", how="delete"))
    # sssd needs a moment to reconnect to the directory.
    mapped.wait_until(lambda: "frank left physics and has jobs" in compare(mapped).stdout, "frank did not leave", 90)
    assert associations(mapped) == ["erin|4|", "frank|4|0"]
    refused = submit_as(mapped, "frank", "true")
    assert "job submit limit" in refused.stderr or "AssocMaxSubmitJobLimit" in refused.stderr, refused.stderr
    assert mapped.exec("ctl", state).stdout == "RUNNING\n"
    mapped.exec("ctl", f"scancel {job}")
    mapped.wait_until(lambda: mapped.exec("ctl", f"{state} 2>/dev/null", check=False).stdout == "", "still there", 60)
    mapped.wait_until(lambda: "loses the account" in compare(mapped).stdout, "frank keeps the account", 60)
    assert associations(mapped) == ["erin|4|"]
    assert rights(mapped) == ("erin", ["erin|Operator"])


def test_returning_member_may_submit_again(mapped: Cluster) -> None:
    mapped.exec("ctl", "sacctmgr -i modify user where name=erin account=physics set MaxSubmitJobs=0")
    done = compare(mapped)
    assert (done.returncode, associations(mapped)) == (0, ["erin|4|"]), done.stderr
    assert submit_as(mapped, "erin", "true").returncode == 0


def test_empty_group_and_many_removals_need_confirmation(mapped: Cluster) -> None:
    change(mapped, member(GROUP, "frank"))
    assert compare(mapped).returncode == 0
    mapped.wait_until(
        lambda: mapped.exec("ctl", "squeue -h --account=physics").stdout == "", "jobs are still there", 60
    )
    change(mapped, member(GROUP, "frank", how="delete"))
    many = compare(mapped, "--max-removals", "0")
    assert (many.returncode, associations(mapped)) == (REFUSED, ["erin|4|", "frank|4|"])
    assert "1 user would lose an account or rights" in many.stderr
    assert rights(mapped) == ("erin,frank", ["erin|Operator", "frank|Operator"])
    change(mapped, member(GROUP, "erin", how="delete"))
    empty = compare(mapped)
    assert (empty.returncode, associations(mapped)) == (REFUSED, ["erin|4|", "frank|4|"])
    assert "busbar-account-groups --allow-empty" in empty.stderr
    assert metric(mapped, "last_run_refused") == 1
    asked = compare(mapped, "--allow-empty")
    assert (asked.returncode, associations(mapped)) == (0, []), asked.stderr


def test_missing_group_removes_nobody(mapped: Cluster) -> None:
    change(mapped, member(GROUP, "erin"))
    assert compare(mapped).returncode == 0
    name = f"dn: cn={GROUP},ou=groups,{SUFFIX}\nchangetype: modrdn\nnewrdn: cn=other\ndeleteoldrdn: 1\n\n"
    change(mapped, name)
    try:
        done = compare(mapped)
        assert (done.returncode, associations(mapped)) == (REFUSED, ["erin|4|"])
        assert "the group physics is not in the directory" in done.stderr
    finally:
        change(mapped, name.replace(f"cn={GROUP},", "cn=other,").replace("newrdn: cn=other", f"newrdn: cn={GROUP}"))
