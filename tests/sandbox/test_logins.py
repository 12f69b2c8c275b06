"""Tests of logins: users only into their jobs, only admins on controllers, no hostbased login for privileged users."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from test_slurm_jobs import GRANTED, OPEN_ALL, REFUSED, job_state, submit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("ssh", "slurm")

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"
NODE = "gpu1"


def _address(sandbox: Cluster, node: str) -> str:
    return sandbox.exec("ctl", f"getent ahostsv4 {node} | awk 'NR==1 {{print $1}}'").stdout.strip()


def _with_key(sandbox: Cluster, user: str, node: str) -> subprocess.CompletedProcess[str]:
    """Log in from this machine with the key of alice and the admin, over a new connection."""
    known = sandbox.state / "secrets" / "known_hosts"
    options = ["BatchMode=yes", f"UserKnownHostsFile={known}", "IdentityAgent=none", "IdentitiesOnly=yes"]
    key = ["-i", str(sandbox.state / "ssh" / "id_ed25519")]
    command = ["ssh", "-F", "none", *key, *(part for option in options for part in ("-o", option))]
    target = f"{user}@{_address(sandbox, node)}"
    return subprocess.run([*command, target, "whoami"], check=False, capture_output=True, text=True, timeout=30)


@pytest.fixture
def job(sandbox: Cluster) -> Iterator[str]:
    """Start a job of alice with one GPU on a node."""
    sandbox.wait_idle()
    number = submit(sandbox, f"-w {NODE} --gpus-per-node=1 --mem=100 -o /dev/null", "sleep 600")
    sandbox.wait_until(lambda: job_state(sandbox, number) == "RUNNING", f"job {number} does not run")
    yield number
    sandbox.exec("ctl", f"scancel {number}")
    sandbox.wait_idle()


@pytest.mark.core
def test_login_to_a_compute_node_without_a_job_is_refused(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    by_host = sandbox.exec("login", f"{SSH} {NODE} true", user="alice", check=False)
    by_key = _with_key(sandbox, "alice", NODE)
    for done in (by_host, by_key):
        assert done.returncode == 255
        assert "you have no active jobs on this node" in done.stderr
    assert _with_key(sandbox, "admin", NODE).stdout == "admin\n"


@pytest.mark.core
def test_session_is_confined_to_the_job_and_ends_with_it(sandbox: Cluster, job: str) -> None:
    shown = sandbox.exec("login", f"{SSH} {NODE} cat /proc/self/cgroup", user="alice").stdout
    assert f"/job_{job}/" in shown
    opened = sandbox.exec("login", f"{SSH} {NODE} python3 - <<'EOF'\n{OPEN_ALL}EOF", user="alice").stdout
    assert sorted(line.split()[1] for line in opened.splitlines()) == sorted([GRANTED, REFUSED])
    other = sandbox.exec("login", f"{SSH} {NODE} true", user="bob", check=False)
    assert (other.returncode, "no active jobs" in other.stderr) == (255, True)
    session = subprocess.Popen(
        ["podman", "exec", sandbox.container("login"), "runuser", "-l", "alice", "-c", f"{SSH} {NODE} sleep 987"]
    )
    try:
        running = "pgrep -u alice -f '^sleep 987'"
        sandbox.wait_until(lambda: sandbox.exec(NODE, running, check=False).returncode == 0, "no session")
        sandbox.exec("ctl", f"scancel {job}")
        assert session.wait(timeout=60) != 0
        assert sandbox.exec(NODE, running, check=False).returncode == 1
    finally:
        session.kill()


@pytest.fixture
def logind(sandbox: Cluster) -> Iterator[None]:
    """Install systemd-logind, which every server has and these nodes lack: it moves sessions to their own cgroups."""
    sandbox.exec(NODE, "apt-get -q -y install --no-install-recommends libpam-systemd", timeout=300)
    assert "pam_systemd" in sandbox.exec(NODE, "cat /etc/pam.d/common-session").stdout
    yield
    sandbox.exec(NODE, "apt-get -q -y purge libpam-systemd", timeout=300)


@pytest.mark.usefixtures("logind")
def test_systemd_does_not_move_a_session_out_of_its_job(sandbox: Cluster, job: str) -> None:
    done = sandbox.exec(
        "login", f"{SSH} {NODE} 'cat /proc/self/cgroup; systemctl --user status'", user="alice", check=False
    )
    assert done.returncode != 0, "alice has a manager of her own, which starts processes outside of the job"
    assert f"/job_{job}/" in done.stdout
    assert "user.slice" not in done.stdout


@pytest.fixture
def cron(sandbox: Cluster) -> Iterator[None]:
    """Install cron, which most servers have: it starts users' programs outside of any job."""
    sandbox.exec(NODE, "apt-get -q -y install --no-install-recommends cron", timeout=300)
    done = sandbox.playbook("slurm.yml", "--limit", NODE, "--tags", "slurm_compute")
    assert done.returncode == 0, done.stdout
    yield
    sandbox.exec(NODE, "rm -f /etc/cron.d/busbar-test; apt-get -q -y purge cron", timeout=300)


@pytest.mark.usefixtures("cron")
def test_cron_runs_jobs_of_the_system_but_not_of_users(sandbox: Cluster) -> None:
    # Both lines are in one table, so the file of root's job proves that alice's job was due, too.
    lines = [f"* * * * * {user} id -un >/tmp/cron-{user}" for user in ("alice", "root")]
    table = "\n".join(lines)
    sandbox.exec(NODE, f"rm -f /tmp/cron-*; printf '%s\n' '{table}' >/etc/cron.d/busbar-test")
    sandbox.wait_until(
        lambda: sandbox.exec(NODE, "cat /tmp/cron-root", check=False).stdout == "root\n", "cron does not run", 150
    )
    assert sandbox.exec(NODE, "ls /tmp/cron-alice", check=False).returncode != 0


def test_admins_log_in_and_users_do_not_while_slurm_is_down(sandbox: Cluster, job: str) -> None:
    # slurmd's copy of the configuration disappears with it; without the spool directory it looks as if it had never
    # run.
    spool = "/var/lib/slurm/slurmd"
    gone = f"systemctl stop slurmd && mv {spool} {spool}.away"
    back = f"mv {spool}.away {spool} && systemctl start slurmd"
    assert job
    sandbox.exec(NODE, gone)
    try:
        assert _with_key(sandbox, "admin", NODE).stdout == "admin\n"
        users = [_with_key(sandbox, "alice", NODE), sandbox.exec("login", f"{SSH} {NODE} id", user="bob", check=False)]
    finally:
        sandbox.exec(NODE, back)
    for done in users:
        assert done.returncode == 255
        assert done.stdout == ""


@pytest.mark.core
def test_controllers_refuse_users(sandbox: Cluster) -> None:
    for done in (
        sandbox.exec("login", f"{SSH} ctl true", user="alice", check=False),
        sandbox.exec(NODE, f"{SSH} ctl true", user="bob", check=False),
        _with_key(sandbox, "alice", "ctl"),
    ):
        assert done.returncode == 255
        assert "ctl takes no users. Log in to login." in done.stderr
        assert "Permission denied" in done.stderr
    assert _with_key(sandbox, "admin", "ctl").stdout == "admin\n"
    assert sandbox.exec("ctl", "id -u alice").stdout.strip() == "2001"
    effective = sandbox.exec("ctl", f"sshd -T -C user=alice,host={NODE},addr={_address(sandbox, NODE)}").stdout
    assert "hostbasedauthentication no" in effective
    assert sandbox.exec("ctl", "ls /etc/ssh/shosts.equiv", check=False).returncode != 0


def test_manually_granted_privileges_apply_at_the_next_login(sandbox: Cluster) -> None:
    """Members of the group docker can become root, so hostbased authentication must not admit them."""
    login = f"{SSH} login whoami"
    assert sandbox.exec(NODE, login, user="bob").stdout.strip() == "bob"
    sandbox.exec("login", "groupadd --system docker && gpasswd -a bob docker")
    try:
        refused = sandbox.exec(NODE, login, user="bob", check=False)
    finally:
        sandbox.exec("login", "groupdel docker")
    assert (refused.returncode, "Permission denied" in refused.stderr) == (255, True)
    assert sandbox.exec(NODE, login, user="bob").stdout.strip() == "bob"


@pytest.fixture
def image_user(sandbox: Cluster) -> Iterator[str]:
    """Create an undeclared user with a password-free sudo rule, as cloud images do."""
    name = "ubuntu"
    for node in ("login", NODE):
        sandbox.exec(node, f"useradd --create-home --shell /bin/bash {name}")
        sandbox.exec(
            node, f"echo '{name} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/90-cloud; chmod 440 /etc/sudoers.d/90-cloud"
        )
    yield name
    for node in ("login", NODE):
        sandbox.exec(node, f"rm -f /etc/sudoers.d/90-cloud; userdel -rf {name}")


def test_users_of_an_image_need_a_key(sandbox: Cluster, image_user: str) -> None:
    done = sandbox.exec(NODE, f"{SSH} login sudo -n id", user=image_user, check=False)
    assert (done.returncode, "Permission denied" in done.stderr) == (255, True)


def test_declared_user_with_a_manual_sudo_rule_needs_a_key(sandbox: Cluster) -> None:
    rule = "/etc/sudoers.d/by-hand"
    sandbox.exec("login", f"echo 'User_Alias OPS = bob' >{rule}; echo 'OPS ALL=(ALL) ALL' >>{rule}; chmod 440 {rule}")
    try:
        done = sandbox.playbook("base.yml", "--limit", "login", "--tags", "ssh")
        assert done.returncode == 0, done.stdout + done.stderr
        refused = sandbox.exec(NODE, f"{SSH} login true", user="bob", check=False)
        assert (refused.returncode, "Permission denied" in refused.stderr) == (255, True)
        assert sandbox.exec(NODE, f"{SSH} login whoami", user="alice").stdout.strip() == "alice"
    finally:
        sandbox.exec("login", f"rm -f {rule}")
        done = sandbox.playbook("base.yml", "--limit", "login", "--tags", "ssh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sandbox.exec(NODE, f"{SSH} login whoami", user="bob").stdout.strip() == "bob"


@pytest.mark.fault(
    "an sshd setting that locks the admin out",
    says="restores its previous settings",
    heals="the host itself puts the former settings back",
)
def test_setting_that_locks_out_the_admin_is_reverted_by_the_host(sandbox: Cluster) -> None:
    sshd = "md5sum /etc/ssh/sshd_config.d/01-busbar.conf"
    before = sandbox.exec("login", sshd).stdout
    wrong = {"ssh_server_config": {"DenyUsers": "admin"}, "__ssh_trial_timeout": 10, "__ssh_trial_seconds": 40}
    began = time.monotonic()
    done = sandbox.playbook("base.yml", "--limit", "login", "--tags", "ssh", "-e", json.dumps(wrong))
    assert done.returncode != 0
    assert "restores its previous settings" in " ".join(done.stdout.split())
    sandbox.wait_until(lambda: sandbox.exec("login", sshd).stdout == before, "still locked", 60)
    sandbox.wait_until(lambda: _with_key(sandbox, "admin", "login").stdout == "admin\n", "still locked", 10)
    assert time.monotonic() - began > 10
    again = sandbox.playbook("base.yml", "--limit", "login", "--tags", "ssh")
    assert again.returncode == 0, again.stdout + again.stderr
    assert sandbox.exec("login", sshd).stdout == before
    assert sandbox.exec("login", "ls /var/lib/busbar/ssh", check=False).stdout == ""
