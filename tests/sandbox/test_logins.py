"""Who gets in where: users with a job, in the job; nobody but admins on controllers; no power on a node's word."""

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
    """Log in from this machine with the key that alice and the admin have, over a connection of its own."""
    known = sandbox.state / "secrets" / "known_hosts"
    options = ["BatchMode=yes", f"UserKnownHostsFile={known}", "IdentityAgent=none", "IdentitiesOnly=yes"]
    key = ["-i", str(sandbox.state / "ssh" / "id_ed25519")]
    command = ["ssh", "-F", "none", *key, *(part for option in options for part in ("-o", option))]
    target = f"{user}@{_address(sandbox, node)}"
    return subprocess.run([*command, target, "whoami"], check=False, capture_output=True, text=True, timeout=30)


@pytest.fixture
def job(sandbox: Cluster) -> Iterator[str]:
    """A job of alice with one of the GPUs of a node."""
    sandbox.wait_idle()
    number = submit(sandbox, f"-w {NODE} --gpus-per-node=1 --mem=100 -o /dev/null", "sleep 600")
    sandbox.wait_until(lambda: job_state(sandbox, number) == "RUNNING", f"job {number} does not run")
    yield number
    sandbox.exec("ctl", f"scancel {number}")
    sandbox.wait_idle()


@pytest.mark.core
def test_without_a_job_a_compute_node_is_shut(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    by_host = sandbox.exec("login", f"{SSH} {NODE} true", user="alice", check=False)
    by_key = _with_key(sandbox, "alice", NODE)
    for done in (by_host, by_key):
        assert done.returncode == 255
        assert "you have no active jobs on this node" in done.stderr
    assert _with_key(sandbox, "admin", NODE).stdout == "admin\n"


@pytest.mark.core
def test_a_session_is_confined_to_the_job_and_ends_with_it(sandbox: Cluster, job: str) -> None:
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
    """What every server has and these nodes lack: sessions that systemd keeps in control groups of its own."""
    sandbox.exec(NODE, "apt-get -q -y install --no-install-recommends libpam-systemd", timeout=300)
    assert "pam_systemd" in sandbox.exec(NODE, "cat /etc/pam.d/common-session").stdout
    yield
    sandbox.exec(NODE, "apt-get -q -y purge libpam-systemd", timeout=300)


@pytest.mark.usefixtures("logind")
def test_systemd_does_not_take_a_session_out_of_its_job(sandbox: Cluster, job: str) -> None:
    done = sandbox.exec(
        "login", f"{SSH} {NODE} 'cat /proc/self/cgroup; systemctl --user status'", user="alice", check=False
    )
    assert done.returncode != 0, "alice has a manager of her own, which starts processes outside of the job"
    assert f"/job_{job}/" in done.stdout
    assert "user.slice" not in done.stdout


@pytest.fixture
def cron(sandbox: Cluster) -> Iterator[None]:
    """What most servers have: a daemon that starts users' programs, outside of any job."""
    sandbox.exec(NODE, "apt-get -q -y install --no-install-recommends cron", timeout=300)
    done = sandbox.playbook("slurm.yml", "--limit", NODE, "--tags", "slurm_compute")
    assert done.returncode == 0, done.stdout
    yield
    sandbox.exec(NODE, "rm -f /etc/cron.d/busbar-test; apt-get -q -y purge cron", timeout=300)


@pytest.mark.usefixtures("cron")
def test_cron_does_nothing_for_users_and_its_work_for_the_system(sandbox: Cluster) -> None:
    # Both by one table, so that what root's left behind says that alice's had its turn, too.
    lines = [f"* * * * * {user} id -un >/tmp/cron-{user}" for user in ("alice", "root")]
    table = "\n".join(lines)
    sandbox.exec(NODE, f"rm -f /tmp/cron-*; printf '%s\n' '{table}' >/etc/cron.d/busbar-test")
    sandbox.wait_until(
        lambda: sandbox.exec(NODE, "cat /tmp/cron-root", check=False).stdout == "root\n", "cron does not run", 150
    )
    assert sandbox.exec(NODE, "ls /tmp/cron-alice", check=False).returncode != 0


def test_when_slurm_is_down_admins_get_in_and_users_do_not(sandbox: Cluster, job: str) -> None:
    # Its copy of the configuration goes with slurmd; without the spool directory it is as if it had never run.
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
def test_controllers_take_no_users(sandbox: Cluster) -> None:
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


def test_power_that_was_given_by_hand_counts_at_the_next_login(sandbox: Cluster) -> None:
    """Whoever is in the group docker is root by one command, so a node's word must not do."""
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
    """What cloud images bring: a user whom nobody declared, with a password-free rule of sudo."""
    name = "ubuntu"
    for node in ("login", NODE):
        sandbox.exec(node, f"useradd --create-home --shell /bin/bash {name}")
        sandbox.exec(
            node, f"echo '{name} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/90-cloud; chmod 440 /etc/sudoers.d/90-cloud"
        )
    yield name
    for node in ("login", NODE):
        sandbox.exec(node, f"rm -f /etc/sudoers.d/90-cloud; userdel -rf {name}")


def test_the_users_of_an_image_need_a_key(sandbox: Cluster, image_user: str) -> None:
    done = sandbox.exec(NODE, f"{SSH} login sudo -n id", user=image_user, check=False)
    assert (done.returncode, "Permission denied" in done.stderr) == (255, True)


def test_a_declared_user_with_a_hand_written_sudo_rule_needs_a_key(sandbox: Cluster) -> None:
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
def test_a_setting_that_locks_out_the_admin_is_undone_by_the_host(sandbox: Cluster) -> None:
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
