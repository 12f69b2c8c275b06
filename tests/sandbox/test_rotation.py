"""Tests of the rotation of secrets during a running job: complete or refused, also after a killed run."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import TOP, plain_environment, recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm", "mariadb")

KEY = "/etc/munge/munge.key"
LINES, GO = "/shared/rotation.txt", "/shared/rotation-go-on"
THROUGH = f"""#!/bin/sh
#SBATCH -w gpu1 --mem=64 -o {LINES} --job-name=rotation
while [ -e {GO} ]; do date +%s; sleep 1; done
srun --mem=64 echo a step after
"""


@pytest.fixture(scope="module")
def job(sandbox: Cluster) -> Iterator[str]:
    """Return the ID of a job that writes each second during all tests."""
    sandbox.exec("login", f"rm -f {LINES}; touch {GO}", user="alice")
    sandbox.exec("login", f"cat >/shared/rotation.sh <<'END'\n{THROUGH}END", user="alice")
    number = sandbox.exec("login", "sbatch --parsable /shared/rotation.sh", user="alice").stdout.strip()
    sandbox.wait_until(lambda: len(seconds(sandbox)) > 1, "the job does not run")
    yield number
    sandbox.exec("login", f"rm -f {GO} /shared/rotation.sh; scancel {number}", user="alice")
    sandbox.wait_idle()


def seconds(sandbox: Cluster) -> list[int]:
    """Return the times at which the job wrote."""
    text = sandbox.exec("login", f"cat {LINES} || true", user="alice").stdout
    return [int(line) for line in text.split() if line.isdigit()]


def is_unbroken(sandbox: Cluster, job: str) -> None:
    """Check that the job runs on its first node and wrote without a gap."""
    told = sandbox.exec("ctl", f"scontrol show job {job}").stdout
    assert "JobState=RUNNING" in told, told
    assert "Restarts=0" in told, told
    written = len(seconds(sandbox))
    sandbox.wait_until(lambda: len(seconds(sandbox)) > written, "the job has stopped writing")
    gaps = [after - before for before, after in itertools.pairwise(seconds(sandbox))]
    # `date` may be slow on a machine that is busy with a rotation; a restarted job has a longer gap.
    assert max(gaps) <= 10, gaps


def secrets(sandbox: Cluster) -> dict[str, str]:
    """Return the secrets of the provisioning host."""
    folder = sandbox.state / "secrets"
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()}


def nodes(sandbox: Cluster) -> list[str]:
    return ["ctl", "login", *sandbox.compute]


def keys(sandbox: Cluster) -> set[str]:
    """Return the set of munge keys on all nodes."""
    return {sandbox.exec(node, f"sha256sum <{KEY}; ls {KEY}.next 2>&1 || true").stdout for node in nodes(sandbox)}


def rotate(sandbox: Cluster, names: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return sandbox.busbar("provision", "rotate_secrets", "-i", str(sandbox.inventory), "-e", names, *arguments)


def chosen(*names: str) -> str:
    return json.dumps({"rotate_secrets": names})


def done(sandbox: Cluster, *names: str, arguments: tuple[str, ...] = ()) -> str:
    """Rotate secrets, check that the output contains none of them, and return it."""
    before = secrets(sandbox)
    made = rotate(sandbox, chosen(*names), *arguments)
    said = made.stdout + made.stderr
    assert made.returncode == 0, said
    log = (sandbox.state / "logs" / re.findall(r"[\w-]+provision\.log", made.stdout)[-1]).read_text()
    private = {text.strip() for text in [*before.values(), *secrets(sandbox).values()] if "\n" not in text.strip()}
    assert not [text for text in private if text in said or text in log]
    assert not [name for name in secrets(sandbox) if name.endswith(("_next", "_previous"))]
    return said


def refused(sandbox: Cluster, names: str, *arguments: str) -> str:
    """Check that a run fails without changes, and return its output."""
    before = secrets(sandbox), keys(sandbox)
    made = rotate(sandbox, names, *arguments)
    assert made.returncode in {1, 2}, made.stdout
    assert all(counts["changed"] == 0 for counts in recap(made.stdout).values()), made.stdout
    assert (secrets(sandbox), keys(sandbox)) == before
    return made.stdout


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("rotate_secrets=", "no secret is selected"),
        (chosen("munge", "jwt"), "'jwt' is not a secret that can be rotated"),
        (chosen("ldap_reader"), "ldap_reader: the cluster does not run an LDAP directory of busbar"),
    ],
)
def test_invalid_selection_is_refused(sandbox: Cluster, names: str, problem: str) -> None:
    said = refused(sandbox, names)
    assert problem in said
    assert "munge, slurm_database, ldap_reader" in said or "leave ldap_reader out" in said


def test_secret_set_by_the_inventory_is_refused(sandbox: Cluster) -> None:
    said = refused(sandbox, chosen("munge"), "-e", "munge_key=a-key-of-the-site-that-is-long-enough")
    assert "munge_key: the inventory sets it" in said


def test_check_mode_shows_the_rotation_and_changes_nothing(sandbox: Cluster) -> None:
    before = secrets(sandbox)
    made = rotate(sandbox, chosen("munge", "ssh"), "--check")
    assert made.returncode == 0, made.stdout
    assert "nothing is changed" in made.stdout
    assert "munge: a new munge.key, on ctl,gpu[1-2],login; pause: slurmctld and slurmdbd stop" in made.stdout
    assert all(counts["changed"] == 0 for counts in recap(made.stdout).values())
    assert secrets(sandbox) == before


@pytest.mark.fault(
    "a host is missing while secrets are replaced",
    says="rotate_secrets: munge: not in this run",
    heals="run the rotation again with all hosts",
)
def test_missing_host_is_reported_before_any_change(sandbox: Cluster) -> None:
    node = sandbox.compute[-1]
    assert f"{node}: rotate_secrets: munge: not in this run" in refused(sandbox, chosen("munge"), "--limit", f"!{node}")
    sandbox.exec(node, "systemctl stop ssh.socket ssh")
    try:
        assert f"{node}: rotate_secrets: munge: not in this run" in refused(sandbox, chosen("munge"))
    finally:
        sandbox.exec(node, "systemctl start ssh")


def test_job_continues_during_rotation_of_the_munge_key(sandbox: Cluster, job: str) -> None:
    before = keys(sandbox)
    old = sandbox.exec("login", "munge -n", user="alice").stdout.strip()
    said = done(sandbox, "munge")
    assert re.search(r"slurmctld was down for \d+ s", said), said
    assert (len(keys(sandbox)), keys(sandbox) & before) == (1, set())
    answer = sandbox.exec("gpu2", f"unmunge <<<'{old}'", check=False)
    assert (answer.returncode != 0, "Invalid credential" in answer.stdout + answer.stderr) == (True, True), answer
    is_unbroken(sandbox, job)
    assert sandbox.exec("login", "srun -w gpu2 --mem=64 --chdir=/ hostname", user="alice").stdout.strip() == "gpu2"


@pytest.mark.fault(
    "the rotation of the munge key is killed while slurmctld stands still",
    says="munge: resumes where it stopped",
    heals="run the rotation again",
)
def test_killed_rotation_is_finished_by_the_next(sandbox: Cluster, job: str) -> None:
    before = secrets(sandbox)["munge.key"]
    command = ["ansible-playbook", "-i", str(sandbox.inventory), "playbooks/rotate_secrets.yml", "-e", chosen("munge")]
    run = subprocess.Popen(command, cwd=TOP, env=plain_environment(), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        stopped = "systemctl is-active -q slurmctld"
        sandbox.wait_until(lambda: sandbox.exec("ctl", stopped, check=False).returncode != 0, "nothing is stopped", 120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    left = secrets(sandbox)
    assert left["munge.key_previous"] == before
    assert left["munge.key"] != before
    assert "the rotation of munge is not finished" in rotate(sandbox, chosen("ssh"), "--check").stdout
    assert "munge: resumes where it stopped" in done(sandbox, "munge")
    assert secrets(sandbox)["munge.key"] == left["munge.key"]
    assert len(keys(sandbox)) == 1
    is_unbroken(sandbox, job)


def test_database_password_is_rotated_and_the_next_run_changes_nothing(sandbox: Cluster, job: str) -> None:
    old = secrets(sandbox)["slurm_database.password"].strip()
    ended = sandbox.exec("login", "sbatch --parsable -w gpu2 --mem=64 -o /dev/null --wrap true", user="alice").stdout
    done(sandbox, "slurm_database")
    asked = "MYSQL_PWD={} mariadb -u slurm -N -e 'select 1'"
    assert "Access denied" in sandbox.exec("ctl", asked.format(old), check=False).stderr
    new = secrets(sandbox)["slurm_database.password"].strip()
    assert sandbox.exec("ctl", asked.format(new)).stdout.strip() == "1"
    sandbox.wait_until(lambda: state(sandbox, ended) == "COMPLETED", "a job of that time is not accounted")
    is_unbroken(sandbox, job)
    again = sandbox.playbook("slurm.yml")
    assert again.returncode == 0, again.stdout
    assert {counts["changed"] for counts in recap(again.stdout).values()} == {0}, again.stdout


def state(sandbox: Cluster, job: str) -> str:
    """Return the state of a job from accounting."""
    return sandbox.exec("ctl", f"sacct -n -X -P -o State -j {job.strip()}").stdout.strip()


def test_job_is_accounted_with_a_step_after_all_rotations(sandbox: Cluster, job: str) -> None:
    is_unbroken(sandbox, job)
    sandbox.exec("login", f"rm {GO}", user="alice")
    sandbox.wait_until(lambda: state(sandbox, job) == "COMPLETED", "the job is not accounted")
    assert sandbox.exec("login", f"tail -1 {LINES}", user="alice").stdout.strip() == "a step after"


def test_ssh_ca_is_rotated(sandbox: Cluster) -> None:
    before = secrets(sandbox)["ssh_ca"]
    done(sandbox, "ssh")
    assert secrets(sandbox)["ssh_ca"] != before
    again = sandbox.playbook("base.yml", "--tags", "ssh")
    assert {counts["changed"] for counts in recap(again.stdout).values()} == {0}, again.stdout
