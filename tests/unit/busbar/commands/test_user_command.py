"""Tests of `busbar user`: the source that it changes, its playbook run, and the restoration of the inventory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbar.cli import main
from busbar.run import site as site_module
from busbar.run.events import Failure

if TYPE_CHECKING:
    from busbar.run.events import Run
    from busbar.run.playbook import Playbook

HOSTS = "all: {children: {slurm_controller: {hosts: {ctl: }}, slurm_compute: {hosts: {gpu1: }}}}\n"
USERS = """\
---
users_groups:
  - {name: research, gid: 2000}
users_accounts:
  - {name: alice, uid: 2001, group: research, password_hash: $6$secret, slurm: {account: ml}}   # first
slurm_accounts: [{name: ml}]
"""
ERIN = {"name": "erin", "number": 20101, "group": "g", "groups": ["g"], "keys": 1, "locked": True, "full_name": "E"}


class Asked:
    """The recorded call of Ansible, and its simulated result."""

    def __init__(self) -> None:
        """Set a successful result."""
        self.playbook = ""
        self.variables: dict[str, Any] = {}
        self.options: list[str] = []
        self.runs = 0
        self.custom: dict[str, Any] = {}
        self.returned = 0
        self.failures: list[Failure] = []
        self.changed: dict[str, int] = {}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site that declares its users."""
    place = tmp_path / "inventory" / "group_vars" / "all"
    place.mkdir(parents=True)
    (tmp_path / "inventory" / "hosts.yml").write_text(HOSTS)
    (place / "users.yml").write_text(USERS)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Replace the playbook run; return the recorded call."""
    seen = Asked()

    def fake(playbook: Playbook, run: Run, log: Path) -> tuple[int, bool]:
        assert log.parent.name == "logs"
        seen.playbook = playbook.path.name
        files = [Path(word[1:]) for word in playbook.options if word.startswith("@")]
        assert all(path.stat().st_mode & 0o077 == 0 for path in files)
        seen.variables, seen.options = json.loads(files[0].read_text()), playbook.options
        seen.runs += 1
        run.tasks, run.custom, run.stats = 3, seen.custom, {"changed": seen.changed, "failures": {"ctl": 1}}
        run._failures = {(each.task, each.message): each for each in seen.failures}  # noqa: SLF001 - no event of Ansible
        return seen.returned, False

    monkeypatch.setattr(site_module, "run_playbook", fake)
    return seen


def run(site: Path, *words: str) -> int:
    return main(["user", *words, "-i", str(site / "inventory")])


def text(site: Path) -> str:
    return (site / "inventory" / "group_vars" / "all" / "users.yml").read_text()


def test_declared_user_is_added(site: Path, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(site, "add", "erin", "--group", "research", "--account", "ml", "--number", "2010") == 0
    assert capsys.readouterr().out == "add erin with UID 2010\nerin: set the Slurm accounts ml\n"
    assert "  - {name: erin, uid: 2010, group: research, slurm: {account: ml}}\n" in text(site)
    assert asked.variables["user_source"] == "declared"
    assert asked.variables["user_present"] == ["erin"]
    assert asked.variables["user_messages"] == ["add erin with UID 2010", "erin: set the Slurm accounts ml"]
    assert asked.variables["user_associations"] == [{"name": "erin", "accounts": ["ml"]}]
    assert "@" in asked.variables["user_by"]
    assert "--check" not in asked.options
    # Unchanged users are applied to the hosts too, because an earlier run may have been incomplete.
    before = text(site)
    assert run(site, "add", "erin") == 0
    assert (text(site), asked.runs) == (before, 2)
    assert capsys.readouterr().out == "nothing to change in the list of users\n"


def test_dry_run_changes_nothing_and_shows_no_hash(
    site: Path, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(site, "lock", "alice", "--dry-run") == 0
    assert text(site) == USERS
    said = capsys.readouterr()
    assert "would do: lock alice" in said.out
    assert "$6$secret" not in said.out + said.err
    assert "--check" in asked.options
    assert len([word for word in asked.options if word.startswith("@")]) == 2


def test_inventory_is_restored_if_hosts_refuse(site: Path, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    asked.returned = 2
    asked.failures = [
        Failure("Refuse", "there is job 7", "users", "busbar.cluster.refuse", "failed", refused=True, hosts=["ctl"])
    ]
    assert run(site, "remove", "alice", "--wait", "60") == 2
    assert asked.variables["users_removal_wait"] == 60
    assert text(site) == USERS
    said = capsys.readouterr().err
    assert "there is job 7" in said
    assert "the inventory was restored" in said
    # If some hosts have changed, the inventory keeps the change for the others.
    asked.changed = {"gpu1": 1}
    assert run(site, "remove", "alice") == 2
    assert "state: absent" in text(site)
    assert "run the command again" in capsys.readouterr().err


def test_users_of_the_directory_of_the_cluster(site: Path, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    asked.custom = {
        "busbar_users": {"people": [ERIN | {"source": "directory"}], "messages": ["add erin with UID 20101"]}
    }
    own = ("-e", "identity_source=ldap_server")
    assert run(site, "add", "erin", "--account", "ml", *own) == 0
    assert capsys.readouterr().out == "add erin with UID 20101\n"
    assert text(site) == USERS
    assert asked.variables["user_source"] == "directory"
    assert asked.variables["user_changes"] == [{"do": "add", "name": "erin", "accounts": ["ml"]}]
    assert asked.variables["user_associations"] == [{"name": "erin", "accounts": ["ml"]}]
    assert run(site, "remove", "erin", *own) == 0
    assert asked.variables["user_associations"] == [{"name": "erin", "state": "absent"}]
    assert run(site, "lock", "alice", "--declared", "--dry-run", *own) == 0
    assert asked.variables["user_source"] == "declared"
    capsys.readouterr()
    assert run(site, "list", "--format", "json", "-e", '{"identity_source": "ldap_server"}') == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["alice", "erin"]
    assert "--check" in asked.options


def test_users_are_listed(site: Path, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(site, "list") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["name", "UID", "group", "groups", "keys", "from", "full", "name"],
        ["alice", "2001", "research", "-", "0", "users_accounts"],
    ]
    assert asked.runs == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "Erin"), "'Erin' is not a valid user name"),
        (("add", "erin", "--number", "2001"), "UID 2001 belongs to alice"),
        (("add", "erin", "--key", "nothing"), "nothing: is neither a public key nor a readable file"),
        (("lock", "bob"), "bob: not a user"),
        (("key", "alice"), "use --add or --remove"),
        (("group", "alice", "--add", "x"), "no group x in users_groups"),
        (("import", "/nowhere.csv"), "cannot read /nowhere.csv"),
        (("list", "-e", "identity_source=external", "-e", "x=1"), "users come from the external directory"),
        (("list", "-e", "identity_source=nis"), "identity_source is 'nis'"),
    ],
)
def test_bad_input(
    site: Path, asked: Asked, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert run(site, *words) == 2
    assert said in capsys.readouterr().err
    assert (asked.runs, text(site)) == (0, USERS)


def test_temporary_root_rights_change_no_file_and_run_only_their_tag(
    site: Path, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    before = text(site)
    assert run(site, "elevate", "alice", "--for", "30m", "--reason", "OPS-17", "--limit", "gpu1") == 0
    assert (asked.playbook, asked.options[-4:]) == ("user.yml", ["--tags", "elevate", "--limit", "gpu1"])
    assert asked.variables["elevate_user"] == "alice"
    said = capsys.readouterr().out
    assert said.startswith("alice has root rights until ")
    assert asked.variables["elevate_message"] == said.strip()
    assert run(site, "elevate", "alice", "--end", "--dry-run") == 0
    assert "--check" in asked.options
    assert capsys.readouterr().out == "would do: alice: temporary root rights revoked\n"
    assert text(site) == before


def test_temporary_root_rights_are_granted_to_users_of_any_source(site: Path, asked: Asked) -> None:
    (site / "inventory/group_vars/all/identity.yml").write_text("identity_source: external\n")
    assert run(site, "elevate", "alice", "--for", "1h", "--reason", "x") == 0
    assert asked.runs == 1
