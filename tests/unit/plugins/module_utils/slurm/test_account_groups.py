"""Tests of accounts and memberships that follow from LDAP groups."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.account_groups import (
    Decision,
    Found,
    decide,
    group_errors,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.cluster_problems import slurm_problems

PHYSICS: dict[str, Any] = {"group": "physics", "account": "phys"}
PLAIN = {"Fairshare": "1", "DefaultQOS": "", "QosLevel": ""}


def found(  # noqa: PLR0913 - one parameter per source
    members: dict[str, list[str] | None],
    *,
    have: tuple[tuple[str, str], ...] = (),
    made: tuple[tuple[str, str], ...] = (),
    busy: tuple[tuple[str, str], ...] = (),
    defaults: dict[str, str] | None = None,
    closed: tuple[tuple[str, str], ...] = (),
    unknown: tuple[str, ...] = (),
) -> Found:
    associations: dict[tuple[str, str], dict[str, str]] = {("phys", ""): {}, ("chem", ""): {}}
    associations |= {one: dict(PLAIN) for one in have}
    for one in closed:
        associations[one]["MaxSubmitJobs"] = "0"
    users = {user: {"default_account": (defaults or {}).get(user, account)} for account, user in have}
    state = {"accounts": {"phys": {}, "chem": {}}, "users": users, "associations": associations}
    known = {user for names in members.values() for user in names or []} - set(unknown)
    return Found(state, members, known, made, busy)


def decided(seen: Found, *, groups: list[dict[str, Any]] | None = None, **more: Any) -> Decision:  # noqa: ANN401
    return decide(seen, "c", groups or [PHYSICS], **{"max_removals": 10, **more})


def commands(decision: Decision) -> list[str]:
    return [" ".join(command) for step in decision.steps for command in step.commands]


ERIN, FRANK = ("phys", "erin"), ("phys", "frank")


def test_member_gets_the_account_with_its_limits() -> None:
    done = decided(found({"physics": ["erin"]}), groups=[{**PHYSICS, "limits": {"MaxJobs": 4}}])
    assert commands(done) == ["add user erin Account=phys Cluster=c Fairshare=1 MaxJobs=4"]
    assert done.made == {ERIN}


def test_removed_member_loses_the_account() -> None:
    done = decided(found({"physics": ["erin"]}, have=(ERIN, FRANK), made=(ERIN, FRANK)))
    assert commands(done) == ["delete user where name=frank cluster=c account=phys"]
    assert done.made == {ERIN}


def test_default_account_is_changed_first() -> None:
    have = (ERIN, FRANK, ("chem", "frank"))
    done = decided(found({"physics": ["erin"]}, have=have, made=(ERIN, FRANK), defaults={"frank": "phys"}))
    assert commands(done) == [
        "modify user where name=frank cluster=c set DefaultAccount=chem",
        "delete user where name=frank cluster=c account=phys",
    ]


def test_manually_granted_account_is_kept() -> None:
    done = decided(found({"physics": ["erin"]}, have=(ERIN, FRANK), made=(ERIN,)))
    assert commands(done) == []


def test_declared_user_is_left_unchanged() -> None:
    seen = found({"physics": ["erin", "frank"]}, have=(ERIN,), made=(ERIN,))
    assert commands(decided(seen, declared=["frank"])) == []
    assert commands(decided(found({"physics": ["frank"]}, have=(ERIN, FRANK), made=(ERIN,)), declared=["erin"])) == []


def test_removed_member_with_jobs_cannot_submit_new_ones() -> None:
    seen = {"have": (ERIN, FRANK), "made": (ERIN, FRANK), "busy": (FRANK,)}
    done = decided(found({"physics": ["erin"]}, **seen))  # type: ignore[arg-type]
    assert commands(done) == ["modify user where name=frank cluster=c account=phys set MaxSubmitJobs=0"]
    assert done.made == {ERIN, FRANK}
    later = decided(found({"physics": ["erin"]}, **seen, closed=(FRANK,)))  # type: ignore[arg-type]
    assert commands(later) == []
    assert "frank left phys and has jobs" in later.notes[0]


def test_returning_member_can_submit_again() -> None:
    done = decided(found({"physics": ["erin"]}, have=(ERIN,), made=(ERIN,), closed=(ERIN,)))
    assert commands(done) == ["modify user where name=erin cluster=c account=phys set MaxSubmitJobs=-1"]


@pytest.mark.parametrize(
    ("members", "said"), [(None, "is not in the directory"), ([], "is empty")], ids=["gone", "empty"]
)
def test_a_missing_or_empty_group_removes_no_user(members: list[str] | None, said: str) -> None:
    done = decided(found({"physics": members}, have=(ERIN,), made=(ERIN,)))
    assert commands(done) == []
    assert done.made == {ERIN}
    assert said in done.refusals[0]


def test_confirmed_empty_group_removes_its_users() -> None:
    done = decided(found({"physics": []}, have=(ERIN,), made=(ERIN,)), allow_empty=True)
    assert commands(done) == ["delete user where name=erin cluster=c account=phys"]
    assert decided(found({"physics": None}, have=(ERIN,), made=(ERIN,)), allow_empty=True).made == {ERIN}


def test_group_without_former_members_is_ignored() -> None:
    assert decided(found({"physics": []})).refusals == []


def test_too_many_removals_remove_no_user_but_additions_continue() -> None:
    seen = found({"physics": ["grace"]}, have=(ERIN, FRANK), made=(ERIN, FRANK))
    done = decided(seen, max_removals=1)
    assert commands(done) == ["add user grace Account=phys Cluster=c Fairshare=1"]
    assert done.made == {ERIN, FRANK, ("phys", "grace")}
    assert (
        "2 users would lose an account or rights, more than slurm_account_groups_max_removals (1)" in done.refusals[0]
    )
    assert "busbar-account-groups --max-removals 2" in done.refusals[0]


def test_unresolvable_user_is_left_unchanged() -> None:
    done = decided(found({"physics": ["erin", "frank"]}, have=(ERIN,), made=(ERIN,), unknown=("erin", "frank")))
    assert commands(done) == []
    assert done.made == {ERIN}


def test_missing_account_is_reported() -> None:
    done = decided(found({"physics": ["erin"]}), groups=[{**PHYSICS, "account": "none"}])
    assert commands(done) == []
    assert "the account none is not in accounting" in done.refusals[0]


def test_two_groups_can_share_one_account() -> None:
    groups = [PHYSICS, {"group": "guests", "account": "phys"}]
    seen = found({"physics": ["erin"], "guests": ["erin", "frank"]}, have=(ERIN, FRANK), made=(ERIN, FRANK))
    assert commands(decided(seen, groups=groups)) == []
    half = found({"physics": ["erin"], "guests": None}, have=(ERIN, FRANK), made=(ERIN, FRANK))
    assert commands(decided(half, groups=groups)) == []


def test_account_that_is_no_longer_mapped_is_left_unchanged() -> None:
    other = ("chem", "erin")
    done = decided(found({"physics": ["erin"]}, have=(ERIN, other), made=(ERIN, other)))
    assert commands(done) == []
    assert done.made == {ERIN}


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([PHYSICS, {**PHYSICS, "account": "chem"}], "account_groups[physics]: is mapped more than once"),
        ([{**PHYSICS, "account": "x"}], "account_groups[physics]: account x is not declared in slurm_accounts"),
        ([{**PHYSICS, "qos": ["x"]}], "account_groups[physics]: QOS x is not declared in slurm_qos"),
        ([{**PHYSICS, "default_qos": "x"}], "account_groups[physics]: QOS x is not declared in slurm_qos"),
    ],
)
def test_invalid_groups_are_refused(groups: list[dict[str, Any]], said: str) -> None:
    errors = [f"{key}: {problem}" for key, problem in group_errors(groups, ["phys", "chem"], ["high"])]
    assert [error[: len(said)] for error in errors] == [said]
    assert group_errors([{**PHYSICS, "qos": ["High", "normal"]}], ["phys"], ["high"]) == []


@pytest.mark.parametrize(
    ("accounting", "databases", "said"),
    [
        ({"identity_source": "declared"}, ["ctl"], "no host uses a directory (identity_source is declared)"),
        ({"identity_source": "external"}, ["ctl"], "account phys is not declared in slurm_accounts"),
        (
            {"identity_source": "external", "accounts": [{"name": "phys", "state": "absent"}]},
            ["ctl"],
            "account phys is not declared in slurm_accounts",
        ),
        ({"identity_source": "external"}, [], "no host runs the accounting database"),
        ({"identity_source": "external", "account_groups_interval": 7200}, ["ctl"], "7200 s is out of range"),
    ],
)
def test_cluster_without_the_prerequisites_is_refused(
    accounting: dict[str, Any], databases: list[str], said: str
) -> None:
    problems = slurm_problems(
        nodes=[],
        controllers=["ctl"],
        databases=databases,
        logins=[],
        catalogue={"": {}},
        partitions=[],
        groups={},
        accounting={"account_groups": [PHYSICS], **accounting},
    )
    texts = [problem["problem"] for problem in problems if problem["key"].startswith("slurm_account_groups")]
    assert any(said in text for text in texts), problems
