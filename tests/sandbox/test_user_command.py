"""Tests of `busbar user` with declared users: inventory file, accounts on all hosts, keys, jobs, accounting."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("users")

NUMBER = 2950


def _user(sandbox: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return sandbox.busbar("user", *words, "--sandbox", "--name", sandbox.name)


def _file(sandbox: Cluster) -> Path:
    return sandbox.inventory / "group_vars" / "all" / "zz_sandbox.yml"


def _ids(sandbox: Cluster, name: str) -> set[str]:
    return {sandbox.exec(node, f"id {name}", check=False).stdout for node in ["ctl", "login", *sandbox.compute]}


@pytest.fixture(scope="module")
def site(sandbox: Cluster) -> Iterator[Cluster]:
    """Return the sandbox; its inventory and users are restored at the end."""
    before = _file(sandbox).read_text()
    yield sandbox
    data = yaml.safe_load(before)
    gone = [{"name": name, "state": "absent"} for name in ("erin", "frank")]
    given = {"users_accounts": [*data["users_accounts"], *gone]}
    done = sandbox.playbook("base.yml", "--tags", "users", "-e", json.dumps(given))
    sandbox.exec(
        "ctl", "for name in erin frank; do sacctmgr -i delete user $name; rm -rf /shared/home/$name; done; true"
    )
    _file(sandbox).write_text(before)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def erin(site: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Return a site with the user erin, which a dry run did not create."""
    key = tmp_path_factory.mktemp("erin") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "erin@laptop", "-f", key], check=True)
    before = _file(site).read_text()
    words: tuple[str, ...] = ("add", "erin", "--number", str(NUMBER), "--group", "research", "--account", "research")
    words = (*words, "--key", str(key.with_suffix(".pub")))
    dry = _user(site, *words, "--dry-run")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert f"would do: add erin with UID {NUMBER}" in dry.stdout
    assert _file(site).read_text() == before
    assert _ids(site, "erin") == {""}
    done = _user(site, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    after = _file(site).read_text().splitlines()
    assert [line for line in before.splitlines() if line not in after] == []
    return site


@pytest.mark.core
def test_user_is_added_everywhere_with_home_key_and_account(erin: Cluster) -> None:
    assert _ids(erin, "erin") == {f"uid={NUMBER}(erin) gid=2000(research) groups=2000(research)\n"}
    assert erin.exec("login", "stat -c '%U %a' /shared/home/erin").stdout == "erin 700\n"
    assert "erin@laptop" in erin.exec("login", "cat /etc/ssh/authorized_keys.d/erin").stdout
    assert erin.exec("login", "srun --job-name=hers id -un", user="erin").stdout == "erin\n"
    listing = "sacctmgr -nP show assoc user=erin format=account"
    assert erin.exec("ctl", listing).stdout == "research\n"
    said = erin.exec("ctl", "journalctl -t busbar-user -o cat").stdout
    assert f"add erin with UID {NUMBER}" in said
    assert "@" in said.partition(":")[0]


def test_existing_user_is_left_unchanged(erin: Cluster) -> None:
    before = _file(erin).read_text()
    again = _user(erin, "add", "erin", "--number", str(NUMBER))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "nothing to change" in again.stdout
    assert "changed=" not in again.stderr
    assert _file(erin).read_text() == before
    listed = json.loads(_user(erin, "list", "--format", "json").stdout)
    assert [one["name"] for one in listed] == ["alice", "bob", "erin"]


def test_uid_in_use_on_a_host_is_refused_and_reverted(erin: Cluster) -> None:
    node = erin.compute[-1]
    before = _file(erin).read_text()
    erin.exec(node, f"useradd --uid {NUMBER + 1} stranger")
    try:
        refused = _user(erin, "add", "frank", "--number", str(NUMBER + 1))
        assert refused.returncode == 2, refused.stdout + refused.stderr
        assert f"uid {NUMBER + 1} of user frank is taken by stranger" in refused.stderr
        assert _file(erin).read_text() == before
        assert _ids(erin, "frank") == {""}
    finally:
        erin.exec(node, "userdel stranger")


def test_table_is_imported_completely_or_not_at_all(erin: Cluster, tmp_path: Path) -> None:
    table = tmp_path / "users.csv"
    table.write_text(f"name,number,accounts\nfrank,{NUMBER + 1},research\nerin,{NUMBER + 2},\n")
    before = _file(erin).read_text()
    refused = _user(erin, "import", str(table))
    assert refused.returncode == 2
    assert f"erin is declared with uid {NUMBER}" in refused.stderr
    assert _file(erin).read_text() == before
    table.write_text(f"name,number,accounts\nfrank,{NUMBER + 1},research\nerin,{NUMBER},\n")
    done = _user(erin, "import", str(table))
    assert done.returncode == 0, done.stdout + done.stderr
    assert erin.exec("login", "srun id -un", user="frank").stdout == "frank\n"


def test_locked_account_stays_closed_until_unlocked(erin: Cluster) -> None:
    expiry = "getent shadow erin | cut -d: -f8"
    done = _user(erin, "lock", "erin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {erin.exec(node, expiry).stdout for node in ["ctl", "login", *erin.compute]} == {"1\n"}
    refused = erin.exec("login", "su erin -c id; true", check=False)
    assert "expired" in refused.stdout + refused.stderr
    again = _user(erin, "lock", "erin")
    assert "nothing to change" in again.stdout
    done = _user(erin, "unlock", "erin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert erin.exec("login", expiry).stdout == "\n"


def test_user_with_a_job_is_not_removed_and_the_home_is_kept(erin: Cluster) -> None:
    job = erin.exec("login", "sbatch --parsable --wrap 'sleep 600'", user="erin").stdout.strip()
    before = _file(erin).read_text()
    refused = _user(erin, "remove", "erin")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert f"job {job}" in refused.stderr
    assert _file(erin).read_text() == before
    erin.exec("ctl", f"scancel {job}")
    done = _user(erin, "remove", "erin", "--wait", "120")
    assert done.returncode == 0, done.stdout + done.stderr
    assert _ids(erin, "erin") == {""}
    assert erin.exec("ctl", "sacctmgr -nP show assoc user=erin format=account").stdout == ""
    assert erin.exec("login", "stat -c %u /shared/home/erin").stdout == f"{NUMBER}\n"
    back = _user(erin, "add", "erin", "--group", "research")
    assert back.returncode == 0, back.stdout + back.stderr
    assert erin.exec("login", "id -u erin").stdout == f"{NUMBER}\n"


def _root(sandbox: Cluster, node: str) -> int:
    return sandbox.exec(node, "sudo -n id", user="alice", check=False).returncode


def test_root_rights_expire_automatically(sandbox: Cluster) -> None:
    """The sudo rule contains the expiry, which sudo checks; the file stays unchanged."""
    assert _root(sandbox, "login") != 0
    given = ("elevate", "alice", "--for", "1m", "--reason", "OPS-17: fabric", "--limit", "login")
    rehearsed = _user(sandbox, *given, "--dry-run")
    assert rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr
    assert _root(sandbox, "login") != 0
    done = _user(sandbox, *given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "alice has root rights until " in done.stdout
    assert _root(sandbox, "login") == 0
    assert _root(sandbox, "gpu1") != 0
    said = sandbox.exec("login", "journalctl -t busbar-user -o cat").stdout
    assert "OPS-17: fabric" in said
    sandbox.wait_until(lambda: _root(sandbox, "login") != 0, "she is root still", 90)
    assert sandbox.exec("login", "visudo -c").returncode == 0


def test_root_rights_are_revoked(sandbox: Cluster) -> None:
    assert _user(sandbox, "elevate", "alice", "--for", "1h", "--reason", "x").returncode == 0
    assert {_root(sandbox, node) for node in ["login", *sandbox.compute]} == {0}
    # A provisioning run does not revoke them.
    assert sandbox.playbook("base.yml", "--tags", "users").returncode == 0
    assert _root(sandbox, "login") == 0
    assert _user(sandbox, "elevate", "alice", "--end").returncode == 0
    assert 0 not in {_root(sandbox, node) for node in ["login", *sandbox.compute]}
    assert sandbox.exec("ctl", "ls /etc/sudoers.d | grep for-a-time", check=False).stdout == ""


@pytest.mark.parametrize(
    ("name", "says"), [("nobody-here", "does not exist on this host"), ("munge", "is a system account")]
)
def test_root_rights_are_refused_for_unsuitable_accounts(sandbox: Cluster, name: str, says: str) -> None:
    done = _user(sandbox, "elevate", name, "--for", "1h", "--reason", "x")
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
    assert sandbox.exec("ctl", "ls /etc/sudoers.d | grep for-a-time", check=False).stdout == ""
