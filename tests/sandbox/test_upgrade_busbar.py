"""Tests of a site of an older busbar, provisioned by this one: check mode shows the changes, and jobs continue."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from conftest import FIRST_RUN_TIMEOUT_S, TOP, Cluster, plain_environment, recap
from test_slurm_jobs import job_state, submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.proves("slurm")]

# The first commit of 2026-11-23: without baselines for the uninstallation, rotation of secrets and the portal.
OLDER = os.environ.get("BUSBAR_TEST_OLDER", "d4c356b105b7684905b4092c95402857f067a131")
LINES = "/shared/home/alice/through-upgrade"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a checkout of an older busbar."""
    git = ["git", "-C", str(TOP)]
    known = subprocess.run([*git, "cat-file", "-e", f"{OLDER}^{{commit}}"], check=False, capture_output=True)
    if known.returncode:
        pytest.skip(f"this checkout has no history up to {OLDER}: git fetch --unshallow")
    tree = tmp_path_factory.mktemp("older") / "busbar"
    subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), OLDER], check=True)
    yield tree
    subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def former_users(one: Cluster) -> str:
    """Return the sandbox's users in the format of the older busbar: slurm_users besides users_accounts."""
    command = [sys.executable, "-m", "ansible", "inventory", "-i", str(one.inventory), "--host", "ctl"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=TOP, env=plain_environment())
    accounts = json.loads(shown.stdout)["users_accounts"]
    users = [{"name": each["name"], "accounts": [each["slurm"]["account"]]} for each in accounts]
    logins = [{key: value for key, value in each.items() if key != "slurm"} for each in accounts]
    return json.dumps({"users_accounts": logins, "slurm_users": users})


@pytest.fixture(scope="module")
def cluster(sandbox_name: str, older: Path) -> Iterator[Cluster]:
    """Return a sandbox with one compute node, provisioned by the older busbar with its playbooks, roles and modules."""
    one = Cluster(f"{sandbox_name}-older")
    made = one.busbar("sandbox", "up", "--name", one.name, "--compute", "1")
    assert made.returncode == 0, made.stderr
    command = [sys.executable, "-m", "ansible", "playbook", "-i", str(one.inventory), str(older / "playbooks/site.yml")]
    environment = plain_environment() | {"ANSIBLE_CONFIG": str(older / "ansible.cfg")}
    done = subprocess.run(
        [*command, "-e", "validation_stages=node", "-e", former_users(one)],
        check=False,
        capture_output=True,
        text=True,
        timeout=FIRST_RUN_TIMEOUT_S,
        cwd=older,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


def provision(one: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = one.busbar(
        *("provision", "-i", str(one.inventory), "-e", "validation_stages=node", *arguments),
        timeout=FIRST_RUN_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def accounted(one: Cluster) -> dict[str, str]:
    """Return the state of each job from accounting."""
    listed = one.exec("ctl", "sacct -a -nX -P -S now-1day -o JobID,State").stdout
    return dict(line.split("|") for line in listed.split("\n") if line)


def test_jobs_continue_during_an_upgrade_announced_by_check_mode(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    ended = [submit(cluster, "-n1 --mem=64 -o /dev/null", "true") for _ in range(3)]
    for job in ended:
        wait_for_state(cluster, job, "COMPLETED")
    running = submit(cluster, f"-w gpu1 --mem=64 -o {LINES}", "for i in $(seq 3600); do echo $i; sleep 1; done")
    wait_for_state(cluster, running, "RUNNING")
    waiting = submit(cluster, "-w gpu1 --exclusive -o /dev/null", "true")
    users = cluster.exec("ctl", "sacctmgr -nP show assoc format=cluster,account,user,qos | sort").stdout
    files = "find /etc /usr/local -xdev -type f -newer /tmp/mark ! -name '*.db' | sort"
    cluster.exec("ctl", "touch /tmp/mark")

    said = provision(cluster, "--check", "--diff")
    planned = {host: counts["changed"] for host, counts in recap(said.stdout).items()}
    assert sum(planned.values()) > 0, said.stdout
    assert re.search(r"(?m)^\s*[+-]", said.stdout), said.stdout
    assert cluster.exec("ctl", files).stdout == ""
    assert job_state(cluster, running) == "RUNNING"

    began = time.monotonic()
    done = provision(cluster)
    record_property("provisioned in, s", round(time.monotonic() - began))
    changed = {host: counts["changed"] for host, counts in recap(done.stdout).items() if counts["changed"]}
    record_property("planned", planned)
    record_property("changed", changed)
    assert set(changed) <= {host for host, count in planned.items() if count}
    for host in ("ctl", "gpu1"):  # Modules of programs that consisted of several files
        assert cluster.exec(host, "ls -d /usr/local/lib/busbar/busbar_*", check=False).stdout == ""
    assert job_state(cluster, running) == "RUNNING"
    assert job_state(cluster, waiting) == "PENDING"
    assert cluster.exec("ctl", "sacctmgr -nP show assoc format=cluster,account,user,qos | sort").stdout == users
    # No number is missing, so the job was neither stopped nor restarted.
    counted = [int(line) for line in cluster.exec("login", f"cat {LINES}").stdout.split()]
    assert counted == list(range(1, len(counted) + 1))

    again = provision(cluster)
    assert {host: counts["changed"] for host, counts in recap(again.stdout).items() if counts["changed"]} == {}, (
        again.stdout
    )

    assert job_state(cluster, running) == "RUNNING"
    cluster.exec("login", f"scancel {running}", user="alice")
    wait_for_state(cluster, waiting, "COMPLETED")
    known = accounted(cluster)
    assert {job: known.get(job) for job in (*ended, waiting)} == dict.fromkeys((*ended, waiting), "COMPLETED")
    assert known[running].startswith("CANCELLED")
    record_property("jobs submitted, accounted", (len(ended) + 2, len({*ended, waiting, running} & set(known))))
