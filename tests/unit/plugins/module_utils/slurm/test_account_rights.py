"""Tests of account coordinators and Slurm administrators from LDAP groups."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.directory_group_rights import (
    RightsSeen,
    RightsStep,
    decide_rights,
    parse_coordinators,
    rights_errors,
)

LEADS: dict[str, Any] = {"group": "leads", "account": "phys", "coordinator": True}
STAFF: dict[str, Any] = {"group": "staff", "level": "Operator"}
ERIN_LEADS, ERIN_OPERATES = ("coordinator", "phys", "erin"), ("level", "Operator", "erin")


def seen(members: dict[str, list[str] | None], **more: Any) -> RightsSeen:  # noqa: ANN401
    names = {user for users in members.values() for user in users or []}
    return RightsSeen(
        **{"coordinators": (), "levels": {}, "members": members, "known": names, "associated": names, **more}
    )


def commands(steps: list[RightsStep]) -> list[str]:
    return [" ".join(step.command) for step in steps]


def test_group_grants_coordinator_and_admin_level() -> None:
    steps, made, _, refusals = decide_rights(seen({"leads": ["erin"], "staff": ["erin"]}), [LEADS], [STAFF])
    assert commands(steps) == [
        "add coordinator account=phys names=erin",
        "modify user where name=erin set AdminLevel=Operator",
    ]
    assert made == {ERIN_LEADS, ERIN_OPERATES}
    assert refusals == []


def test_removed_member_loses_both_rights() -> None:
    there = {"coordinators": {("phys", "erin")}, "levels": {"erin": "operator"}, "made": {ERIN_LEADS, ERIN_OPERATES}}
    steps, made, _, _ = decide_rights(seen({"leads": ["bob"], "staff": ["bob"]}, **there), [LEADS], [STAFF])
    assert commands([step for step in steps if step.takes]) == [
        "delete coordinator where account=phys names=erin",
        "modify user where name=erin set AdminLevel=None",
    ]
    assert made == {("coordinator", "phys", "bob"), ("level", "Operator", "bob")}


def test_manually_granted_rights_are_kept() -> None:
    there = {"coordinators": {("phys", "bob")}, "levels": {"bob": "administrator", "erin": "administrator"}}
    steps, made, notes, _ = decide_rights(seen({"leads": [], "staff": ["erin"]}, **there), [LEADS], [STAFF])
    assert commands(steps) == []
    assert made == set()
    assert notes == ["erin has the manually set AdminLevel administrator: unchanged"]


def test_first_group_decides_the_admin_level() -> None:
    high = {"group": "root", "level": "Administrator"}
    there = {"levels": {"erin": "operator"}, "made": {ERIN_OPERATES}}
    steps, made, _, _ = decide_rights(seen({"root": ["erin"], "staff": ["erin"]}, **there), [], [high, STAFF])
    assert commands(steps) == ["modify user where name=erin set AdminLevel=Administrator"]
    assert ("level", "Administrator", "erin") in made


@pytest.mark.parametrize(("users", "said"), [(None, "is not in the directory"), ([], "is empty")])
def test_missing_or_empty_group_revokes_no_right(users: list[str] | None, said: str) -> None:
    there = {"levels": {"erin": "operator"}, "made": {ERIN_OPERATES}}
    steps, made, _, refusals = decide_rights(seen({"staff": users}, **there), [], [STAFF])
    assert commands(steps) == []
    assert made == {ERIN_OPERATES}
    assert said in refusals[0]
    confirmed, _, _, _ = decide_rights(seen({"staff": users}, **there), [], [STAFF], allow_empty=True)
    assert len(confirmed) == (users is not None)


def test_user_without_an_account_gets_no_rights() -> None:
    steps, made, notes, _ = decide_rights(seen({"staff": ["erin"]}, associated=()), [], [STAFF])
    assert (commands(steps), len(made)) == ([], 0)
    assert notes == ["erin is in staff and has no account: gets no rights (Operator)"]


def test_sacctmgr_output_is_parsed() -> None:
    assert parse_coordinators("phys|erin,bob\nroot|\n") == {("phys", "erin"), ("phys", "bob")}


def test_duplicate_group_is_refused() -> None:
    assert rights_errors([STAFF, {**STAFF, "level": "Administrator"}]) == [
        ("admin_groups[staff]", "is declared more than once")
    ]


def test_unresolvable_user_keeps_the_rights() -> None:
    there = {"levels": {"erin": "operator"}, "made": {ERIN_OPERATES}, "known": ()}
    steps, made, _, _ = decide_rights(seen({"staff": ["erin"]}, **there), [], [STAFF])
    assert commands(steps) == []
    assert made == {ERIN_OPERATES}
