"""Tests of fail2ban: repeated failed logins are banned from SSH temporarily; cluster hosts and admins are not."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("fail2ban")

NOBODY = "busbar-nobody"
RETRIES = 3


def address(sandbox: Cluster, node: str) -> str:
    return sandbox.exec(node, "hostname -I").stdout.split()[0]


def configure(sandbox: Cluster, *arguments: str, **options: object) -> str:
    """Run the play with fail2ban on the login node, or with other options; return the output."""
    given = {
        "fail2ban_enabled": True,
        "fail2ban_max_retry": RETRIES,
        "fail2ban_trusted": [address(sandbox, "login").rpartition(".")[0] + ".1"],
    } | options
    done = sandbox.playbook("base.yml", "--tags", "fail2ban", "--limit", "login", "-e", json.dumps(given), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def jail(sandbox: Cluster) -> Iterator[None]:
    """Enable fail2ban on the login node; it is removed at the end."""
    configure(sandbox)
    yield
    configure(sandbox, fail2ban_enabled=False)
    assert sandbox.exec("login", "systemctl is-active fail2ban", check=False).stdout == "inactive\n"
    assert "f2b" not in sandbox.exec("login", "nft list tables").stdout
    assert recap(configure(sandbox, fail2ban_enabled=False))["login"]["changed"] == 0


@pytest.fixture
def stranger(sandbox: Cluster) -> Iterator[Callable[[], str]]:
    """Create a machine outside the cluster; return a function that tries to log in from it as an unknown user."""
    target = address(sandbox, "login")
    own = f"{target.rpartition('.')[0]}.250"
    routes = json.loads(subprocess.check_output(["ip", "-j", "route", "get", target]))
    device = ["dev", routes[0]["dev"]]
    subprocess.run(["ip", "address", "add", f"{own}/32", *device], check=True)
    options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=5")
    command = ["ssh", "-b", own, *(word for option in options for word in ("-o", option)), f"{NOBODY}@{target}", "true"]
    try:
        yield lambda: subprocess.run(command, check=False, capture_output=True, text=True).stderr
    finally:
        sandbox.exec("login", f"fail2ban-client set sshd unbanip {own}", check=False)
        subprocess.run(["ip", "address", "del", f"{own}/32", *device], check=True)


@pytest.mark.scenario
def test_repeated_login_failures_are_banned_and_unbanned(sandbox: Cluster, stranger: Callable[[], str]) -> None:
    for _ in range(RETRIES):
        assert "Permission denied" in stranger()
    banned = "fail2ban-client get sshd banned"
    sandbox.wait_until(lambda: ".250" in sandbox.exec("login", banned).stdout, "nobody is banned", 30)
    assert "Connection refused" in stranger()
    # All other clients can still log in.
    assert sandbox.exec("gpu1", "ssh -o BatchMode=yes login whoami", user="alice").stdout == "alice\n"
    sandbox.exec("login", f"fail2ban-client unban {address(sandbox, 'login').rpartition('.')[0]}.250")
    assert "Permission denied" in stranger()


def test_cluster_host_is_never_banned(sandbox: Cluster) -> None:
    guess = f"ssh -o BatchMode=yes -o StrictHostKeyChecking=no {NOBODY}@login true"
    for _ in range(2 * RETRIES):
        assert "Permission denied" in sandbox.exec("gpu1", guess, user="alice", check=False).stderr
    ignored = f"Ignore {address(sandbox, 'gpu1')}"
    log = "cat /var/log/fail2ban.log"
    sandbox.wait_until(lambda: ignored in sandbox.exec("login", log).stdout, "nobody looked", 30)
    assert sandbox.exec("login", "fail2ban-client get sshd banned").stdout.strip() == "[]"
    assert sandbox.exec("gpu1", "ssh -o BatchMode=yes login whoami", user="alice").stdout == "alice\n"


def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    assert recap(configure(sandbox, "--check", "--diff"))["login"]["changed"] == 0


def test_run_that_might_ban_itself_is_refused(sandbox: Cluster) -> None:
    given = json.dumps({"fail2ban_enabled": True, "fail2ban_trusted": [], "fail2ban_ban_time_s": 0})
    done = sandbox.playbook("base.yml", "--tags", "fail2ban", "--limit", "login", "-e", given)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, said
    assert "fail2ban_ban_time_s: 0 is below 1" in said
    assert "which a few failed logins would ban" in said
    assert recap(done.stdout)["login"]["changed"] == 0
