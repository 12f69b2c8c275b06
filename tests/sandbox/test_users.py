"""Tests of users and groups on the nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("users")

TEMPORARY = {"name": "carol", "uid": 2901, "comment": "Carol", "sudo": ["ALL=(ALL:ALL) NOPASSWD: ALL"]}
# Created by `openssl passwd -6 -salt busbar secret-of-carol`.
PASSWORD_HASH = "$6$busbar$Lc7Q0NiCwlSTJQpPfzvk36Rbb49V9QqC7M9yP4yhYprdZKnrVyh8W/uIajYpnyPyDk3rpyEJkkDy5kvf/.7PE."  # noqa: S105
HOLD = "/run/busbar-test-hold"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMdOIs4ZUUzsmD91rKaOkv1ANjPLUmGbYBp/r858dVUk carol@laptop"


def _declared(sandbox: Cluster) -> list[dict[str, Any]]:
    accounts = yaml.safe_load((sandbox.inventory / "group_vars/all/zz_sandbox.yml").read_text())["users_accounts"]
    assert isinstance(accounts, list)
    return accounts


def _run(sandbox: Cluster, node: str, accounts: list[dict[str, Any]], *arguments: str) -> Any:  # noqa: ANN401
    extra = json.dumps({"users_accounts": accounts})
    return sandbox.playbook("base.yml", "--limit", node, "--tags", "users", "-e", extra, *arguments)


@pytest.fixture
def carol(sandbox: Cluster) -> Iterator[str]:
    """Return a node on which a test may create the user carol; account and home are removed at the end."""
    node = sandbox.compute[0]
    yield node
    gone = [*_declared(sandbox), {"name": "carol", "state": "absent", "remove_home": True}]
    done = _run(sandbox, node, gone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sandbox.exec(node, "id carol; getent group carol; ls /shared/home/carol", check=False).stdout == ""
    assert sandbox.exec(node, "ls /etc/ssh/authorized_keys.d/carol /etc/sudoers.d/busbar", check=False).stdout == ""


@pytest.mark.core
def test_uids_and_gids_are_identical_everywhere(sandbox: Cluster) -> None:
    alice = "uid=2001(alice) gid=2000(research) groups=2000(research)"
    bob = "uid=2002(bob) gid=2000(research) groups=2000(research)"
    answers = {sandbox.exec(node, "id alice; id bob").stdout for node in ["ctl", "login", *sandbox.compute]}
    assert answers == {f"{alice}\n{bob}\n"}


@pytest.mark.core
def test_user_logs_in_to_her_own_home(sandbox: Cluster) -> None:
    assert sandbox.exec("login", "pwd; touch file && rm file", user="alice").stdout.strip() == "/shared/home/alice"


def test_user_is_created_with_password_key_and_sudo_rule(sandbox: Cluster, carol: str) -> None:
    full = [*_declared(sandbox), {**TEMPORARY, "password_hash": PASSWORD_HASH, "authorized_keys": [KEY]}]
    dry = _run(sandbox, carol, full, "--check", "--diff")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert sandbox.exec(carol, "id carol", check=False).returncode != 0
    done = _run(sandbox, carol, full, "--diff", "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert PASSWORD_HASH not in dry.stdout + done.stdout
    assert sandbox.exec(carol, "id -u; id -g; id -gn", user="carol").stdout.split() == ["2901", "2901", "carol"]
    assert sandbox.exec(carol, "sudo -n id -u", user="carol").stdout.strip() == "0"
    assert PASSWORD_HASH in sandbox.exec(carol, "getent shadow carol").stdout
    assert sandbox.exec(carol, "cat /etc/ssh/authorized_keys.d/carol").stdout == f"{KEY}\n"
    again = _run(sandbox, carol, full)
    assert recap(again.stdout)[carol]["changed"] == 0


def test_user_with_running_processes_is_removed_after_they_end(sandbox: Cluster, carol: str) -> None:
    done = _run(sandbox, carol, [*_declared(sandbox), TEMPORARY])
    assert done.returncode == 0, done.stdout + done.stderr
    sandbox.exec(
        carol, f"touch {HOLD}; runuser -u carol -- sh -c 'while [ -e {HOLD} ]; do sleep 1; done' &>/dev/null &"
    )
    gone = [*_declared(sandbox), {"name": "carol", "state": "absent", "remove_home": True}]
    done = _run(sandbox, carol, gone)
    assert done.returncode != 0
    assert "(-e users_removal_wait=3600)" in " ".join(done.stdout.split())
    assert sandbox.exec(carol, "pgrep -u carol sh").stdout
    sandbox.exec(carol, f"(sleep 60; rm {HOLD}) &>/dev/null &")
    done = _run(sandbox, carol, gone, "-e", "users_removal_wait=300")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sandbox.exec(carol, "id carol", check=False).returncode != 0


@pytest.mark.fault(
    "a sudo rule that does not parse",
    says="/etc/sudoers.d/busbar was not written",
    heals="correct the rule; the former rules stay",
)
def test_invalid_sudo_rule_is_never_installed(sandbox: Cluster, carol: str) -> None:
    done = _run(sandbox, carol, [*_declared(sandbox), {**TEMPORARY, "sudo": ["this is no rule"]}])
    assert done.returncode != 0
    assert "/etc/sudoers.d/busbar was not written" in done.stdout
    assert sandbox.exec(carol, "ls /etc/sudoers.d/busbar", check=False).returncode != 0


@pytest.fixture
def stranger(sandbox: Cluster) -> Iterator[str]:
    """Create another user with UID 2901 on a node; yields the node."""
    node = sandbox.compute[-1]
    sandbox.exec(node, "useradd --uid 2901 stranger")
    yield node
    sandbox.exec(node, "userdel stranger")


def test_uid_of_another_user_stops_the_run(sandbox: Cluster, stranger: str) -> None:
    extra = json.dumps({"users_accounts": [*_declared(sandbox), TEMPORARY]})
    done = sandbox.playbook("base.yml", "--tags", "users", "-e", extra)
    assert done.returncode != 0
    assert f"{stranger}: users_accounts: uid 2901 of user carol is taken by stranger" in done.stdout
    assert "change the uid of carol, or that of stranger on the host" in " ".join(done.stdout.split())
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
    for node in ["ctl", "login", *sandbox.compute]:
        assert sandbox.exec(node, "id carol", check=False).returncode != 0


def test_uid_declared_twice_is_refused(sandbox: Cluster) -> None:
    extra = json.dumps({"users_accounts": [*_declared(sandbox), {**TEMPORARY, "uid": 2001}]})
    done = sandbox.playbook("base.yml", "--tags", "users", "-e", extra)
    assert done.returncode != 0
    assert "uid 2001 is declared for both alice and carol" in done.stdout
