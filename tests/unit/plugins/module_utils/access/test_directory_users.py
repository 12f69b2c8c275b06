"""Tests of LDAP user changes: the LDIF sent to slapd, and refused changes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.directory_users import Directory, Settings
from ansible_collections.busbar.cluster.plugins.module_utils.access.id_conflicts import Holder
from ansible_collections.busbar.cluster.plugins.module_utils.access.ldap_tools import parse_ldif

SUFFIX = "dc=x"
SETTINGS = Settings(SUFFIX, ["cluster-users"], "cluster-locked", 20000, "/shared/home/", "/bin/bash")
KEY, OTHER = "ssh-ed25519 AAAA erin@laptop", "ssh-ed25519 BBBB erin@desk"
PEOPLE = [
    {
        "dn": [f"uid=erin,ou=people,{SUFFIX}"],
        "uid": ["erin"],
        "cn": ["Erin Example"],
        "uidnumber": ["20101"],
        "gidnumber": ["20000"],
        "objectclass": ["inetOrgPerson", "posixAccount"],
        "sshpublickey": [KEY],
    }
]
GROUPS = [
    {
        "dn": [f"cn=cluster-users,ou=groups,{SUFFIX}"],
        "cn": ["cluster-users"],
        "gidnumber": ["20000"],
        "memberuid": ["erin"],
    },
    {"dn": [f"cn=cluster-locked,ou=groups,{SUFFIX}"], "cn": ["cluster-locked"], "gidnumber": ["20001"]},
    {"dn": [f"cn=physics,ou=groups,{SUFFIX}"], "cn": ["physics"], "gidnumber": ["20002"], "memberuid": ["erin"]},
]
OTHERS = [
    Holder("user", "alice", 2001, "users_accounts"),
    Holder("user", "root", 0, "/etc/passwd"),
    Holder("user", "nobody", 65534, "/etc/passwd"),
    Holder("user", "opc", 20105, "/etc/passwd"),
]


def after(*changes: dict[str, Any]) -> Directory:
    directory = Directory(PEOPLE, GROUPS, SETTINGS)
    directory.change(changes, OTHERS)
    return directory


def sent(directory: Directory) -> list[dict[str, list[str]]]:
    return parse_ldif("".join(directory.ldif))


def test_new_user_gets_an_unused_uid() -> None:
    done = after(
        {"do": "add", "name": "frank", "full_name": "Frank Ängström", "keys": [KEY], "groups": ["physics"]},
        {"do": "add", "name": "grace"},
    )
    assert done.errors == []
    assert done.messages == [
        "add frank with UID 20106",
        "frank: add group cluster-users",
        "frank: add group physics",
        "add grace with UID 20107",
        "grace: add group cluster-users",
    ]
    person, member = sent(done)[:2]
    assert person["dn"] == ["uid=frank,ou=people,dc=x"]
    assert (person["uidnumber"], person["gidnumber"]) == (["20106"], ["20000"])
    assert (person["cn"], person["sn"]) == (["Frank Ängström"], ["Ängström"])
    assert (person["homedirectory"], person["sshpublickey"]) == (["/shared/home/frank"], [KEY])
    assert "userpassword" not in person
    assert (member["changetype"], member["add"], member["memberuid"]) == (["modify"], ["memberUid"], ["frank"])
    assert [one["name"] for one in done.people()] == ["erin", "frank", "grace"]


def test_existing_user_is_left_unchanged() -> None:
    done = after({"do": "add", "name": "erin", "number": 20101, "full_name": "Erin Example", "keys": [KEY]})
    assert (done.ldif, done.messages, done.errors) == ([], [], [])
    more = after({"do": "add", "name": "erin", "keys": [OTHER]})
    assert more.messages == ["erin: add key ssh-ed25519 erin@desk"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"do": "add", "name": "alice"}, "alice exists in users_accounts with UID 2001"),
        ({"do": "add", "name": "root"}, "root exists in /etc/passwd with UID 0"),
        ({"do": "add", "name": "f g"}, "'f g' is not a valid user name"),
        ({"do": "add", "name": "frank", "number": 20101}, "UID 20101 is taken by erin in the directory"),
        ({"do": "add", "name": "frank", "number": 2001}, "UID 2001 is taken by alice in users_accounts"),
        ({"do": "add", "name": "frank", "number": 999}, "UID 999 is out of range (1000 to 59999)"),
        ({"do": "add", "name": "erin", "number": 20102}, "uidnumber (found 20101"),
        (
            {"do": "add", "name": "frank", "group": "x"},
            "unknown groups x; the directory has cluster-locked, cluster-",
        ),
        (
            {"do": "remove", "name": "alice"},
            "alice is in users_accounts with UID 2001, not in the directory: use --d",
        ),
        ({"do": "lock", "name": "erim"}, "erim: no such user in the directory; did you mean erin?"),
        ({"do": "key", "name": "frank", "add": [KEY]}, "frank: no such user"),
        ({"do": "group", "name": "erin", "add": ["x"]}, "unknown groups x"),
        ({"do": "group", "name": "erin", "add": ["cluster-locked"]}, "is reserved for `busbar user lock`"),
    ],
)
def test_conflicts_are_refused_with_both_sides(change: dict[str, Any], said: str) -> None:
    (errors,) = after(change).errors
    assert said in errors


def test_removed_user_is_removed_from_all_groups() -> None:
    done = after({"do": "remove", "name": "erin"}, {"do": "remove", "name": "gone"})
    assert done.removed == ["erin"]
    assert done.messages == [
        "erin: remove group cluster-users",
        "erin: remove group physics",
        "remove erin (UID 20101); the home directory stays",
        "gone is not in the directory: nothing to remove",
    ]
    assert sent(done)[-1] == {"dn": ["uid=erin,ou=people,dc=x"], "changetype": ["delete"]}
    assert done.people() == []


def test_lock_and_unlock_and_list() -> None:
    done = after({"do": "lock", "name": "erin"}, {"do": "lock", "name": "erin"})
    assert (done.messages, len(done.ldif)) == (["lock erin"], 1)
    assert done.people() == [
        {
            "name": "erin",
            "number": 20101,
            "full_name": "Erin Example",
            "group": "cluster-users",
            "groups": ["cluster-users", "physics"],
            "keys": 1,
            "locked": True,
            "source": "directory",
        }
    ]
    back = after({"do": "lock", "name": "erin"}, {"do": "unlock", "name": "erin"}, {"do": "unlock", "name": "erin"})
    assert back.messages == ["lock erin", "unlock erin"]
    unset = Directory(PEOPLE, GROUPS, SETTINGS._replace(locked_group=""))
    unset.change([{"do": "lock", "name": "erin"}], [])
    assert "identity_locked_group" in unset.errors[0]


def test_keys_and_groups_are_changed_individually() -> None:
    done = after(
        {"do": "key", "name": "erin", "add": [OTHER], "remove": ["erin@laptop"]},
        {"do": "group", "name": "erin", "add": ["physics"], "remove": ["cluster-users"]},
    )
    assert done.messages == [
        "erin: remove key ssh-ed25519 erin@laptop",
        "erin: add key ssh-ed25519 erin@desk",
        "erin: remove group cluster-users",
    ]
    # A manually created entry may lack the object class for keys.
    assert "add: objectClass" in done.ldif[0]
    assert sent(done)[0]["sshpublickey"] == [KEY, OTHER]
