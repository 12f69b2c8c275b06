"""Tests of user names and numeric IDs that are used twice: the message names both users."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.module_utils.access.id_conflicts import Holder, clashes


def test_both_sides_of_a_conflict_are_named() -> None:
    local = [
        Holder("user", "alice", 2001, "users_accounts"),
        Holder("user", "alice", 2001, "/etc/passwd"),
        Holder("user", "bob", 2002, "users_accounts"),
        Holder("group", "carol", 2003, "/etc/group"),
        Holder("user", "daemon", 1, "/etc/passwd"),
    ]
    directory = [
        Holder("user", "alice", 20001, "the directory ldaps://ctl"),
        Holder("user", "erin", 2002, "the directory ldaps://ctl"),
        Holder("user", "carol", 2003, "the directory ldaps://ctl"),
        Holder("user", "low", 1, "the directory ldaps://ctl"),
    ]
    assert [found["problem"] for found in clashes("gpu1", local, directory, 1000)] == [
        "user alice is in users_accounts with uid 2001 and in the directory ldaps://ctl with uid 20001",
        "uid 2002 belongs to user bob in users_accounts and to erin in the directory ldaps://ctl",
    ]
    assert clashes("gpu1", local, [], 1000) == []
