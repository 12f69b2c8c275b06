"""Tests of changes of declared users in the files of the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from busbar.errors import UsageError
from busbar.users.inventory_users import Declared, write

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
---
users_groups:
  - {name: research, gid: 2000}
  - {name: admins, gid: 2100}
# our people
users_accounts:
  - {name: alice, uid: 2001, group: research, authorized_keys: ["ssh-ed25519 AAAA alice@laptop"], slurm: {account: ml}}
  - {name: bob, uid: 2005, state: absent, remove_home: true}
  - name: dave
    uid: 2006
    slurm:
      account: ml
      limits: {MaxJobs: 2}
  - {name: frank, slurm: {account: vision}}   # of the directory
slurm_accounts:
  - {name: ml}
  - {name: vision}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an inventory that declares users."""
    place = tmp_path / "inventory" / "group_vars" / "all"
    place.mkdir(parents=True)
    (place / "users.yml").write_text(TEXT)
    (place / "cluster.yml").write_text("cluster_name: x\n")
    return tmp_path / "inventory"


def opened(folder: Path) -> Declared:
    merged: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.yml")):
        merged |= yaml.safe_load(path.read_text()) or {}
    return Declared([str(folder)], {"ctl": merged, "gpu1": merged})


def changed(folder: Path, *changes: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Make changes; return the messages and the resulting data of the files."""
    declared = opened(folder)
    said = declared.change(changes)
    for path, (_before, after) in declared.texts().items():
        write(path, after)
    return said, yaml.safe_load((folder / "group_vars" / "all" / "users.yml").read_text())


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def test_user_is_added_with_the_next_unused_uid(folder: Path) -> None:
    erin = {"do": "add", "name": "erin", "group": "research", "accounts": ["ml"], "keys": ["ssh-ed25519 BBBB e"]}
    said, data = changed(folder, erin)
    # Absent users keep their UID, and GIDs are in the same range.
    assert said == ["add erin with UID 2101", "erin: set the Slurm accounts ml"]
    assert data["users_accounts"][-1] == {
        "name": "erin",
        "uid": 2101,
        "group": "research",
        "authorized_keys": ["ssh-ed25519 BBBB e"],
        "slurm": {"account": "ml"},
    }
    text = (folder / "group_vars" / "all" / "users.yml").read_text()
    assert [line for line in text.splitlines() if "erin" not in line] == TEXT.splitlines()
    assert changed(folder, erin)[0] == []


def test_user_without_uid_is_removed(folder: Path) -> None:
    said, data = changed(folder, {"do": "remove", "name": "frank"})
    assert said == ["remove frank; keep the home directory", "remove frank from Slurm's accounting"]
    assert named(data["users_accounts"], "frank")["state"] == "absent"


def test_removed_user_is_added_again_with_the_former_uid(folder: Path) -> None:
    said, data = changed(folder, {"do": "remove", "name": "alice"}, {"do": "remove", "name": "bob"})
    assert said == ["remove alice (UID 2001); keep the home directory", "remove alice from Slurm's accounting"]
    assert named(data["users_accounts"], "alice")["state"] == "absent"
    assert "remove_home" not in named(data["users_accounts"], "bob")
    assert changed(folder, {"do": "remove", "name": "alice"})[0] == []
    said, data = changed(folder, {"do": "add", "name": "alice", "accounts": ["ml"]})
    assert said == ["add alice again with UID 2001", "alice: set the Slurm accounts ml"]
    assert "state" not in named(data["users_accounts"], "alice")
    assert named(data["users_accounts"], "alice")["slurm"] == {"account": "ml"}
    changed(folder, {"do": "remove", "name": "dave"})
    assert changed(folder, {"do": "add", "name": "dave"})[0] == ["add dave again with UID 2006"]
    assert opened(folder).associations()[-2:] == [
        {"name": "bob", "state": "absent"},
        {"name": "frank", "accounts": ["vision"]},
    ]


def test_additional_accounts_keep_the_default_account_and_the_limits(folder: Path) -> None:
    for accounts in (["vision"], ["vision", "ml"]):
        said, data = changed(folder, {"do": "add", "name": "dave", "accounts": accounts})
        slurm = named(data["users_accounts"], "dave")["slurm"]
        assert slurm == {"account": "ml", "accounts": ["vision"], "limits": {"MaxJobs": 2}}
    assert said == []


def test_removed_list_is_refused(folder: Path) -> None:
    (folder / "group_vars" / "all" / "slurm.yml").write_text("slurm_users: []\n")
    with pytest.raises(UsageError, match="merged into users_accounts: `busbar provision preflight`"):
        opened(folder)


def test_locks_keys_and_groups_are_changed(folder: Path) -> None:
    said, data = changed(
        folder,
        {"do": "lock", "name": "alice"},
        {"do": "key", "name": "alice", "add": ["ssh-ed25519 CCCC alice@new"], "remove": ["alice@laptop"]},
        {"do": "group", "name": "alice", "add": ["admins"], "remove": []},
    )
    assert said == [
        "lock alice",
        "alice: add key ssh-ed25519 alice@new",
        "alice: remove key ssh-ed25519 alice@laptop",
        "alice: add group admins",
    ]
    alice = named(data["users_accounts"], "alice")
    assert (alice["locked"], alice["groups"]) == (True, ["admins"])
    assert alice["authorized_keys"] == ["ssh-ed25519 CCCC alice@new"]
    people = {one["name"]: one for one in opened(folder).people()}
    assert list(people) == ["alice", "dave"]
    assert (people["alice"]["locked"], people["alice"]["accounts"]) == (True, ["ml"])
    said, data = changed(
        folder, {"do": "unlock", "name": "alice"}, {"do": "group", "name": "alice", "add": [], "remove": ["admins"]}
    )
    assert said == ["unlock alice", "alice: remove group admins"]
    assert named(data["users_accounts"], "alice")["locked"] is False
    assert "groups" not in named(data["users_accounts"], "alice")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"do": "add", "name": "erin", "number": 2001}, "UID 2001 belongs to alice in .*users.yml:7"),
        ({"do": "add", "name": "alice", "number": 2009}, "alice is declared with uid 2001 in .*users.yml:7"),
        (
            {"do": "add", "name": "erin", "group": "nobody"},
            "no group nobody in users_groups .available: research, admins",
        ),
        ({"do": "add", "name": "erin", "accounts": ["x"]}, "no account x in slurm_accounts .available: ml, vision"),
        ({"do": "lock", "name": "alise"}, "not a user in users_accounts of .*; did you mean alice"),
        ({"do": "lock", "name": "bob"}, "bob: not a user"),
        ({"do": "remove", "name": "erin"}, "erin: not a user"),
        ({"do": "group", "name": "alice", "add": ["x"], "remove": []}, "no group x"),
    ],
)
def test_invalid_values_are_refused(folder: Path, change: dict[str, Any], said: str) -> None:
    declared = opened(folder)
    with pytest.raises(UsageError, match=said):
        declared.change([{"do": "lock", "name": "alice"}, change])


def test_lists_that_cannot_be_edited_are_refused(folder: Path) -> None:
    other = folder / "group_vars" / "all" / "more.yml"
    other.write_text("users_accounts: []\n")
    with pytest.raises(UsageError, match=r"users_accounts is in .*more.yml and in .*users.yml: keep it in only one"):
        opened(folder)
    other.unlink()
    with pytest.raises(UsageError, match="users_accounts of gpu1 is not defined in"):
        Declared([str(folder)], {"gpu1": {"users_accounts": [{"name": "zoe", "uid": 1}]}})
    with pytest.raises(UsageError, match="has no file with users"):
        Declared(["ctl,"], {})
    (folder / "group_vars" / "all" / "users.yml").write_text("users_accounts: '{{ x }}'\n")
    with pytest.raises(UsageError, match="not a plain list"):
        opened(folder)


def test_first_users_keep_the_existing_text(folder: Path) -> None:
    path = folder / "group_vars" / "all" / "users.yml"
    before = "---\n# users_accounts:\n#   - {name: x, uid: 1}\nslurm_partitions:\n  - {name: batch}\n"
    path.write_text(before)
    path.chmod(0o640)
    said, data = changed(folder, {"do": "add", "name": "erin"})
    assert said == ["add erin with UID 2001"]
    assert data["users_accounts"] == [{"name": "erin", "uid": 2001}]
    assert path.read_text().startswith(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.unlink()
    assert changed(folder, {"do": "add", "name": "erin"})[1]["users_accounts"] == [{"name": "erin", "uid": 2001}]


def test_resulting_lists_are_separate_yaml(folder: Path) -> None:
    declared = opened(folder)
    declared.change([{"do": "lock", "name": "alice"}, {"do": "add", "name": "erin", "accounts": ["ml"]}])
    assert declared.texts() == declared.texts()
    future = yaml.safe_load(declared.future())
    assert future.keys() == {"users_accounts"}
    assert future["users_accounts"][0]["locked"] is True
