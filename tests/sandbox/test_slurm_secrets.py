"""Tests that Slurm's secrets are readable only by the accounts that need them."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm", "mariadb")

SECRETS = ("munge.key", "slurm_database.password")
LOGS = "/var/log /run/log /tmp /root /home /shared/home /var/lib/slurm"


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_readable_only_by_the_owner(sandbox: Cluster, name: str) -> None:
    path = sandbox.state / "secrets" / name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text().strip()) >= 32


@pytest.mark.core
def test_munge_key_is_identical_everywhere_and_readable_only_by_munge(sandbox: Cluster) -> None:
    expected = (sandbox.state / "secrets" / "munge.key").read_text().strip()
    for node in ["ctl", "login", *sandbox.compute]:
        assert sandbox.exec(node, "cat /etc/munge/munge.key").stdout.strip() == expected
        assert sandbox.exec(node, "stat -c '%a %U %G' /etc/munge/munge.key").stdout.strip() == "400 munge munge"
    assert sandbox.exec("login", "cat /etc/munge/munge.key", user="alice", check=False).returncode != 0


@pytest.mark.core
def test_credential_of_one_node_is_valid_on_another(sandbox: Cluster) -> None:
    credential = sandbox.exec("login", "munge -n", user="alice").stdout.strip()
    assert "STATUS:          Success" in sandbox.exec("gpu1", f"unmunge <<<'{credential}'").stdout


def test_password_is_readable_only_by_slurm(sandbox: Cluster) -> None:
    assert sandbox.exec("ctl", "stat -c '%a %U' /etc/slurm/slurmdbd.conf").stdout.strip() == "600 slurm"
    assert sandbox.exec("ctl", "cat /etc/slurm/slurmdbd.conf", user="alice", check=False).returncode != 0


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_in_no_log_of_a_node(sandbox: Cluster, name: str) -> None:
    secret = (sandbox.state / "secrets" / name).read_text().strip()
    for node in ["ctl", "login", *sandbox.compute]:
        found = sandbox.exec(node, f"grep -rlsF -- '{secret}' {LOGS}; journalctl | grep -cF -- '{secret}'", check=False)
        assert found.stdout.split() == ["0"]


def test_secret_is_in_no_output_of_a_run(sandbox: Cluster) -> None:
    sandbox.exec("ctl", "sed -i s/StoragePass=.*/StoragePass=changed/ /etc/slurm/slurmdbd.conf")
    done = sandbox.playbook("slurm.yml", "-vvv", "--diff", "--limit", "ctl")
    assert done.returncode == 0, done.stdout[-3000:]
    for name in SECRETS:
        assert (sandbox.state / "secrets" / name).read_text().strip() not in done.stdout + done.stderr


@pytest.mark.core
def test_database_listens_only_on_its_host(sandbox: Cluster) -> None:
    listening = [socket for socket in sandbox.host("ctl").socket.get_listening_sockets() if socket.endswith(":3306")]
    assert listening == ["tcp://127.0.0.1:3306"]


def test_database_has_no_anonymous_user_and_no_test_database(sandbox: Cluster) -> None:
    shown = sandbox.exec("ctl", "mariadb -Ne 'select User, Host from mysql.user'").stdout
    assert all(line.split("\t")[0].strip() for line in shown.splitlines())
    assert "test" not in sandbox.exec("ctl", "mariadb -Ne 'show databases'").stdout.split()
    assert sandbox.exec("ctl", "mariadb -u root -e 'select 1'", user="alice", check=False).returncode != 0
