"""Tests of attacks by a hostile cluster user: alice attacks bob, the daemons and the nodes, and is refused.

Every attempt is real, fails with the error of the component that must refuse it, and has a control: the same action by
an authorised user succeeds. Without the control, an attempt that fails for another reason would count as refused.
"""

from __future__ import annotations

import dataclasses
import re
import urllib.error
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.state import load
from prometheus_api import Prometheus
from test_slurm_jobs import job_state, submit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm", "ssh", "mariadb", "users")

# Both users have jobs on the first node; nobody has a job on the second.
NODE, FREE = "gpu1", "gpu2"
DENIED = "Permission denied|Operation not permitted"
SECRET = "of-bob-alone"  # noqa: S105 - what the attacks look for
BOB_SCRIPT = f"#!/bin/bash\nexport MARK={SECRET}\nexec sleep 900\n"


@dataclasses.dataclass(frozen=True)
class Jobs:
    """The jobs that run during the attacks, both on one node with one GPU each.

    Attributes:
        bob: ID of the victim's job.
        alice: ID of the attacker's job on the same node.
        pid: a process of the victim's job.
    """

    bob: str
    alice: str
    pid: str


@pytest.fixture(scope="module")
def jobs(sandbox: Cluster) -> Iterator[Jobs]:
    """Start a job of the victim and one of the attacker."""
    sandbox.wait_idle()
    sandbox.exec("login", f"cat > ~/job.sh <<'END'\n{BOB_SCRIPT}END", user="bob")
    asked = f"-w {NODE} --gpus-per-node=1 --mem=100 -n1 -c1 -o /dev/null"
    bob = sandbox.exec("login", f"cd && sbatch --parsable -J victim {asked} job.sh", user="bob").stdout.strip()
    alice = submit(sandbox, asked, "sleep 900")
    for job in (bob, alice):
        sandbox.wait_until(lambda job=job: job_state(sandbox, job) == "RUNNING", f"job {job} does not run")  # type: ignore[misc]
    yield Jobs(bob, alice, sandbox.exec(NODE, "pgrep -u bob -x sleep | head -n1").stdout.strip())
    sandbox.exec("ctl", f"scancel {bob} {alice}")
    sandbox.exec("login", "rm -f ~/job.sh", user="bob")
    sandbox.wait_idle()


def in_job(sandbox: Cluster, job: str, command: str, user: str = "alice") -> tuple[int, str]:
    """Run a shell command inside a running job of a user; return exit code and output."""
    step = f'srun --quiet --jobid={job} --overlap --mem=50 -n1 bash -c "$ATTACK"'
    done = sandbox.exec(
        "login", f"ATTACK=$(cat <<'END'\n{command}\nEND\n); export ATTACK; {step}", user=user, check=False
    )
    return done.returncode, done.stdout + done.stderr


def as_user(sandbox: Cluster, node: str, command: str, user: str = "alice") -> tuple[int, str]:
    """Run a shell command of a user on a node; return exit code and output."""
    done = sandbox.exec(node, command, user=user, check=False)
    return done.returncode, done.stdout + done.stderr


# systemd returns command lines to every user with access to its bus.
PROCESSES = (
    "busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
    " GetUnitProcesses s system.slice"
)
# Inside a job on the victim's node: attack, expected error, and the control by root of the node.
FROM_A_JOB = {
    "the GPU of the other job": (
        "for g in /dev/nvidia[01]; do : <$g; done; exit 1",
        "Operation not permitted",
        "for g in /dev/nvidia[01]; do : <$g; done 2>&1 | grep -c 'No such device' | grep -x 2",
    ),
    "a device file of one's own": ("mknod /tmp/nv c 195 1", DENIED, "mknod /tmp/nv c 195 1 && rm /tmp/nv"),
    "a device file in a user namespace": (
        "unshare --user --map-root-user mknod /tmp/nv c 195 1",
        f"{DENIED}|No space left",
        "mknod /tmp/nv c 195 1 && rm /tmp/nv",
    ),
    "a way out of the job's cgroup": (
        "for f in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do echo $$ >$f && exit 0; done; exit 1",
        DENIED,
        'test -n "$(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs)"',
    ),
    "more processors than the job has": (
        "taskset -c 0-99 nproc | grep -vx 1",
        "Exited with exit code 1",
        "taskset -c 0-99 nproc | grep -vx 1",
    ),
    "the victim's job script": (
        "cat /var/lib/slurm/slurmd/job*{bob}/slurm_script",
        DENIED,
        "grep " + SECRET + " /var/lib/slurm/slurmd/job*{bob}/slurm_script",
    ),
    "the victim's command line": (
        "cat /proc/{pid}/cmdline",
        "No such file or directory",
        "tr '\\0' ' ' </proc/{pid}/cmdline | grep 'sleep 900'",
    ),
    "the victim in the list of processes": (
        "ps -eo user:20,args | grep ^bob",
        "Exited with exit code 1",
        "ps -eo user:20,args | grep '^bob.*sleep 900'",
    ),
    "the victim's command line from systemd": (
        f"{PROCESSES} | grep 'sleep 900'",
        "Access denied",
        f"{PROCESSES} | grep 'sleep 900'",
    ),
    "all processes in a user namespace": (
        "unshare --user --map-root-user --mount sh -c 'mount -o remount,hidepid=off /proc && cat /proc/{pid}/cmdline'",
        f"(?i){DENIED}|No space left|not allowed",
        "grep ' /proc .*hidepid=invisible' /proc/self/mountinfo",
    ),
    "the victim's environment": (
        "cat /proc/{pid}/environ",
        "No such file or directory",
        f"tr '\\0' '\\n' </proc/{{pid}}/environ | grep MARK={SECRET}",
    ),
    "the victim's memory": ("head -c1 /proc/{pid}/mem", "No such file or directory", "test -e /proc/{pid}/mem"),
    "the victim's process": ("kill -9 {pid}", "Operation not permitted", "kill -0 {pid}"),
    "munge's key": ("cat /etc/munge/munge.key", DENIED, "test -s /etc/munge/munge.key"),
    "the host's private keys": ("cat /etc/ssh/ssh_host_ed25519_key", DENIED, "test -s /etc/ssh/ssh_host_ed25519_key"),
    "slurmd's directory": (
        "touch $(ls -d /var/lib/slurm /var/spool/slurmd | head -n1)/mine",
        DENIED,
        "ls /var/lib/slurm",
    ),
    "the configuration of Slurm": ("touch /etc/slurm/prolog.d /etc/slurm/gres.conf", DENIED, "ls /etc/slurm"),
    "tmpfiles as root": ("echo 'f /root/mine' >/etc/tmpfiles.d/mine.conf", DENIED, "ls -d /etc/tmpfiles.d"),
    "root by sudo": ("sudo -n id", "password is required|not allowed|may not run", "sudo -n id"),
    "root by su": ("su -c id </dev/null", "Authentication failure|must be run from a terminal|Password", "su -c id"),
    "a unit of the system": (
        "systemd-run --quiet true",
        f"{DENIED}|authentication|Access denied|Failed",
        "systemctl is-active slurmd",
    ),
    "lingering": (
        "loginctl enable-linger",
        f"{DENIED}|authentication|Access denied|Failed|Could not",
        "loginctl list-users",
    ),
    "the journal of the daemons": (
        "journalctl -n1 -q _UID=0 | grep .",
        "Exited with exit code 1",
        "journalctl -n1 -q _UID=0 | grep .",
    ),
}


@pytest.mark.parametrize("what", FROM_A_JOB)
def test_attack_from_a_job_is_refused(sandbox: Cluster, jobs: Jobs, what: str) -> None:
    attack, refusal, control = (text.replace("{bob}", jobs.bob).replace("{pid}", jobs.pid) for text in FROM_A_JOB[what])
    status, said = in_job(sandbox, jobs.alice, attack)
    assert status != 0, said
    assert re.search(refusal, said.strip()), said
    done = sandbox.exec(NODE, control, check=False)
    assert done.returncode == 0, f"the control failed: {done.stdout}{done.stderr}"


# On the login node, with Slurm's commands: attack and expected error.
BY_SLURM = {
    "submitting as him": ("sbatch --uid=bob --wrap true", "invalid|not permitted|Permission|denied|root"),
    "cancelling his job": ("scancel {bob} && squeue -hj {bob} -o %u | grep -v bob", "Access/permission denied"),
    "changing his job": ("scontrol update jobid={bob} timelimit=1", "Invalid user id"),
    "holding his job": ("scontrol hold {bob}", "Invalid user id"),
    "entering his job": ("srun --jobid={bob} --overlap true", "Access/permission denied|Invalid user|not allowed"),
    "reading his job script": (f"scontrol write batch_script {{bob}} - | grep {SECRET}", "Invalid user id"),
    "attaching to his output": ("sattach {bob}.batch", "Access/permission denied|Invalid|not permitted|error"),
    "an account that is not hers": ("sbatch -A nobody --wrap true", "Invalid account"),
    "becoming an administrator": ("sacctmgr -i modify user alice set adminlevel=admin", "privilege|denied|permitted"),
    "another account's limits": ("sacctmgr -i modify account research set maxjobs=1", "privilege|denied|permitted"),
    "draining a node": ("scontrol update nodename=gpu1 state=drain reason=mine", "Invalid user id|denied"),
    "stopping the controller": ("scontrol shutdown", "Invalid user id|denied"),
    "reconfiguring the controller": ("scontrol reconfigure", "Invalid user id|denied"),
    "a reservation": (
        "scontrol create reservation users=alice nodes=ALL starttime=now duration=1",
        "Access|denied|Invalid user",
    ),
    "a higher priority": ("scontrol update jobid={alice} priority=999999", "Access/permission denied"),
    "a negative nice": ("scontrol update jobid={alice} nice=-100", "Access/permission denied|must be"),
}


@pytest.mark.parametrize("what", BY_SLURM)
def test_attack_with_slurm_commands_is_refused(sandbox: Cluster, jobs: Jobs, what: str) -> None:
    attack, refusal = BY_SLURM[what]
    status, said = as_user(sandbox, "login", attack.replace("{bob}", jobs.bob).replace("{alice}", jobs.alice))
    assert status != 0, said
    assert re.search(refusal, said, re.IGNORECASE), said
    shown = sandbox.exec("ctl", f"scontrol show job -o {jobs.bob}").stdout
    assert "JobState=RUNNING" in shown
    assert "UserId=bob" in shown
    assert sandbox.node_states()[NODE] in {"mix", "alloc"}


def test_login_to_node_without_a_job_and_to_controller_is_refused(sandbox: Cluster, jobs: Jobs) -> None:
    assert jobs.alice
    ssh = "ssh -o BatchMode=yes -o ConnectTimeout=10"
    for target, refusal in (("gpu2 id", "no active jobs"), ("ctl id", "takes no users|Permission denied")):
        status, said = as_user(sandbox, "login", f"{ssh} {target}")
        assert status == 255, said
        assert re.search(refusal, said), said
    for user in ("root", "admin", "bob"):
        status, said = as_user(sandbox, NODE, f"{ssh} {user}@login id")
        assert status == 255, said
        assert "Permission denied" in said
    # The control: she can log in where she has a job, and only into that job.
    status, said = as_user(sandbox, "login", f"{ssh} {NODE} cat /proc/self/cgroup")
    assert (status, f"/job_{jobs.alice}" in said) == (0, True), said


def test_files_of_another_user_are_private(sandbox: Cluster, jobs: Jobs) -> None:
    assert jobs.bob
    status, said = as_user(sandbox, "login", "ls ~bob; cat ~bob/job.sh")
    assert status != 0
    assert "Permission denied" in said
    assert SECRET not in said
    assert SECRET in sandbox.exec("login", "cat ~/job.sh", user="bob").stdout


def test_users_do_not_reach_the_database(sandbox: Cluster) -> None:
    address = load(sandbox.name).address("ctl")
    status, said = as_user(sandbox, "login", f"timeout 5 bash -c ': </dev/tcp/{address}/3306'")
    assert status != 0
    assert "refused" in said
    # Even a session on the controller, which users cannot open, has no access to socket and password.
    for user in ("root", "slurm", "alice"):
        status, said = as_user(sandbox, "ctl", f"mariadb -u {user} -e 'select 1'")
        assert status != 0
        assert re.search("Access denied|command not found", said), said
    status, said = as_user(sandbox, "ctl", "cat $(dirname $(readlink -f /etc/slurm))/slurm/slurmdbd.conf")
    assert status != 0
    assert "Permission denied" in said
    assert sandbox.exec("ctl", "mariadb -e 'select 1'").returncode == 0


@pytest.mark.parametrize("path", ["/-/quit", "/-/reload", "/api/v1/admin/tsdb/delete_series?match[]=up"])
def test_prometheus_admin_api_is_refused(sandbox: Cluster, path: str) -> None:
    prometheus = Prometheus(sandbox.name)
    with pytest.raises(urllib.error.HTTPError) as refused:
        prometheus.open(path, b"")
    assert refused.value.code in {403, 404, 405, 500}
    assert "Healthy" in prometheus.open("/-/healthy")
    prometheus.login = {}
    with pytest.raises(urllib.error.HTTPError, match="401"):
        prometheus.open(path, b"")


# Endpoints with data about jobs of others: a user of any node requests them.
WATCHED = {
    "Prometheus' figures": ("ctl", 9090, "/api/v1/query?query=up"),
    "Prometheus' configuration": ("ctl", 9090, "/api/v1/status/config"),
    "the controller's exporter": ("ctl", 9100, "/metrics"),
    "the exporter of the victim's node": (NODE, 9100, "/metrics"),
}
ASK = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).status)
except urllib.error.HTTPError as refused:
    print(refused.code)
"""


@pytest.mark.parametrize("what", WATCHED)
@pytest.mark.parametrize("where", ["login", NODE])
def test_monitoring_requires_a_password(sandbox: Cluster, what: str, where: str) -> None:
    node, port, path = WATCHED[what]
    url = f"http://{load(sandbox.name).address(node)}:{port}{path}"
    status, said = as_user(sandbox, where, f"python3 -c '{ASK}' '{url}'")
    assert (status, said) == (0, "401\n")
    # The control: access with the password, which users cannot find.
    prometheus = Prometheus(sandbox.name)
    prometheus.url = f"http://{load(sandbox.name).address(node)}:{port}"
    assert prometheus.open(path)
    password = (sandbox.state / "secrets/monitoring.password").read_text(encoding="utf-8").strip()
    places = "/etc /var/lib /run /tmp /opt"
    found = as_user(sandbox, where, f"grep -rsIlF -e {password} {places} /proc/[0-9]*/cmdline")[1]
    assert found == ""


def test_job_name_cannot_forge_metrics(sandbox: Cluster) -> None:
    forged = "x\x1e777\x1fRUNNING\x1fmallory\x1f"
    sandbox.exec("login", f"sbatch --parsable -H -J $'{forged}' -o /dev/null --wrap true", user="alice", check=False)
    try:
        file = "/var/lib/prometheus/node-exporter/busbar_slurm.prom"
        before = sandbox.exec("ctl", f"stat -Lc %Y {file}").stdout
        sandbox.wait_until(
            lambda: sandbox.exec("ctl", f"stat -Lc %Y {file}").stdout != before, "the metrics are not written", 60
        )
        assert "mallory" not in sandbox.exec("ctl", f"cat {file}").stdout
        assert "busbar_slurm_up" in sandbox.exec("ctl", f"cat {file}").stdout
    finally:
        sandbox.exec("ctl", "scancel --user=alice --state=PENDING")


# Ways in which processes try to outlive their job; each marks its process by a number of seconds.
STAYING = {
    "setsid": "setsid sleep {mark} </dev/null >/dev/null 2>&1 &",
    "nohup and a double fork": "(nohup sleep {mark} </dev/null >/dev/null 2>&1 &) &",
    "a unit of the user": "systemd-run --user --quiet sleep {mark}",
    "a Python daemon": """python3 -c 'import os; os.fork() or (os.setsid(), os.execlp("sleep", "sleep", "{mark}"))'""",
    "cron": "(echo '* * * * * sleep {mark}') | crontab -",
    "at": "echo sleep {mark} | at now",
}


def test_no_process_outlives_its_job(sandbox: Cluster) -> None:
    marks = {way: str(7000 + number) for number, way in enumerate(STAYING)}
    tries = "\n".join(way.replace("{mark}", marks[name]) for name, way in STAYING.items())
    script = f"#!/bin/bash\n{tries}\nsleep 2\npgrep -u alice -af '^sleep 7'\n"
    sandbox.exec("login", f"cat > ~/stay.sh <<'END'\n{script}END", user="alice")
    try:
        wait = f"cd && sbatch --wait --parsable -w {FREE} --mem=100 -o stay.out stay.sh"
        sandbox.exec("login", wait, user="alice", check=False, timeout=120)
        seen = sandbox.exec("login", "cat ~/stay.out", user="alice").stdout
        # The control: some of them did run during the job.
        assert f"sleep {marks['setsid']}" in seen, seen
        assert f"sleep {marks['a Python daemon']}" in seen, seen
        left = "pgrep -u alice -af '^sleep 7'"
        sandbox.wait_until(
            lambda: sandbox.exec(FREE, left, check=False).stdout == "",
            f"still there: {sandbox.exec(FREE, left, check=False).stdout}",
        )
        kept = "cat /var/spool/cron/crontabs/alice; ls -A /var/lib/systemd/linger"
        assert sandbox.exec(FREE, kept, check=False).stdout == ""
    finally:
        sandbox.exec("login", "rm -f ~/stay.sh ~/stay.out", user="alice")


def test_memory_beyond_the_allocation_is_refused(sandbox: Cluster, jobs: Jobs) -> None:
    status, said = in_job(sandbox, jobs.alice, "python3 -c 'b = bytearray(400 * 2**20); print(len(b))'")
    assert status != 0, said
    assert str(400 * 2**20) not in said
    assert job_state(sandbox, jobs.bob) == "RUNNING"
    status, said = in_job(sandbox, jobs.alice, "python3 -c 'b = bytearray(2**20); print(len(b))'")
    assert (status, said.strip()) == (0, str(2**20))
