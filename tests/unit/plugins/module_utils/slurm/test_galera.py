"""Which host of a MariaDB cluster starts it: each state in which hosts can be found."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.galera import (
    NOT_COUNTED,
    Member,
    Position,
    cluster_plan,
    options_problems,
    parse_position,
    parse_state,
)

HOSTS = ["db1", "db2", "db3"]
ONE, OTHER = "11111111-2222-3333-4444-555555555555", "66666666-2222-3333-4444-555555555555"
HOUR_S, DAYS_S = 3600, 3 * 86400


def member(**what: Any) -> Member:  # noqa: ANN401 - any key of it
    bare: Member = {
        "running": False,
        "alone": False,
        "cluster": "",
        "was_in": "",
        "transaction": -1,
        "left_last": False,
        "databases": [],
        "saved_s": -1,
    }
    return {**bare, **what}  # type: ignore[typeddict-item]


BARE = member()
ALONE = member(running=True, alone=True, databases=["slurm_acct_db"])
LIVES = member(running=True, cluster=ONE, was_in=ONE, databases=["slurm_acct_db"])
WAITS = member(running=True, was_in=ONE, databases=["slurm_acct_db"])


def stopped(transaction: int, *, last: bool = False, cluster: str = ONE) -> Member:
    return member(was_in=cluster, transaction=transaction, left_last=last, databases=["slurm_acct_db"])


@pytest.mark.parametrize(
    ("found", "first"),
    [
        pytest.param([BARE, BARE, BARE], "db1", id="new"),
        pytest.param([ALONE | {"saved_s": HOUR_S}, BARE, BARE], "db1", id="one database, saved"),
        pytest.param([BARE, ALONE | {"saved_s": HOUR_S}, BARE], "db2", id="the database is on the second"),
        pytest.param([LIVES, LIVES, LIVES], "", id="all live"),
        pytest.param([LIVES, BARE, BARE], "", id="others join"),
        pytest.param([LIVES, stopped(-1), LIVES], "", id="one was killed"),
        pytest.param([WAITS, stopped(7), stopped(9)], "", id="one waits for its majority"),
        pytest.param([stopped(7), stopped(9, last=True), stopped(8)], "db2", id="all stopped in order"),
        pytest.param([stopped(7, last=True), stopped(9), stopped(8)], "db2", id="the last one has less than another"),
        pytest.param([stopped(7), stopped(9), stopped(9)], "db2", id="all killed: the one that has most"),
        pytest.param([stopped(7), stopped(NOT_COUNTED), stopped(9)], "", id="killed and not counted yet"),
        pytest.param([stopped(9, last=True), BARE, BARE], "db1", id="two were replaced, the third left last"),
    ],
)
def test_who_starts_the_cluster(found: list[Member], first: str) -> None:
    plan = cluster_plan(HOSTS, dict(zip(HOSTS, found, strict=True)))
    assert (plan["first"], plan["problems"]) == (first, [])


@pytest.mark.parametrize("asked", [["db1"], ["db2"], ["db1", "db3"], []])
@pytest.mark.parametrize("state", [BARE, stopped(9, last=True), stopped(9)])
def test_nobody_starts_one_while_a_host_did_not_answer(asked: list[str], state: Member) -> None:
    plan = cluster_plan(HOSTS, dict.fromkeys(asked, state))
    assert (plan["first"], plan["problems"]) == ("", [])


@pytest.mark.parametrize(
    ("found", "hosts", "problem"),
    [
        pytest.param([ALONE, BARE, BARE], ["db1"], "no snapshot of it from the last 24 hours", id="not saved"),
        pytest.param([ALONE | {"saved_s": DAYS_S}, BARE, BARE], ["db1"], "no snapshot", id="saved long ago"),
        pytest.param([ALONE, ALONE, BARE], ["db1", "db2"], "could keep only one", id="two databases"),
        pytest.param([LIVES, ALONE, LIVES], ["db2"], "has databases of its own", id="a database beside the cluster"),
        pytest.param([ALONE, stopped(9), stopped(9)], ["db1"], "left others on db2, db3", id="a former cluster"),
        pytest.param([LIVES, LIVES, LIVES | {"cluster": OTHER}], HOSTS, "two clusters", id="split brain"),
        pytest.param([LIVES, LIVES, stopped(3, cluster=OTHER)], ["db3"], "data of another cluster", id="foreign"),
        pytest.param([stopped(3), stopped(4), stopped(5, cluster=OTHER)], HOSTS, "different clusters", id="two pasts"),
        pytest.param([stopped(-1), stopped(4), stopped(5)], HOSTS, "is not known of all", id="damaged"),
        pytest.param([stopped(-1, last=True), stopped(4), stopped(5)], HOSTS, "is not known of all", id="half started"),
        pytest.param([stopped(4), stopped(5), BARE], ["db1", "db2"], "lost their data", id="a disk was replaced"),
        pytest.param([stopped(4, last=True), stopped(5), BARE], ["db1", "db2"], "lost their data", id="last has less"),
    ],
)
def test_what_is_left_to_a_person(found: list[Member], hosts: list[str], problem: str) -> None:
    plan = cluster_plan(HOSTS, dict(zip(HOSTS, found, strict=True)))
    assert plan["first"] == ""
    assert [(item["hosts"], item["key"]) for item in plan["problems"]] == [(hosts, "mariadb_cluster")]
    assert problem in plan["problems"][0]["problem"]


def test_hosts_are_told_in_their_order() -> None:
    found = {"db3": stopped(9), "db1": ALONE, "db2": stopped(8)}
    (problem,) = cluster_plan(HOSTS, found, convert=False)["problems"]
    assert "a cluster that has stopped left others on db2, db3: only one" in str(problem["problem"])


def test_a_dump_of_ones_own_is_taken_at_the_word() -> None:
    found = dict(zip(HOSTS, [ALONE, BARE, BARE], strict=True))
    plan = cluster_plan(HOSTS, found, convert=True)
    assert (plan["first"], plan["problems"]) == ("db1", [])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_three_hosts_are_needed(count: int) -> None:
    hosts = [f"db{number}" for number in range(1, count + 1)]
    (problem,) = options_problems(hosts, "")
    assert f"needs 3 hosts in slurm_database, and {count} are in it" in problem["problem"]


def test_a_database_elsewhere_is_no_cluster() -> None:
    (problem,) = options_problems(HOSTS, "db.example.org")
    assert problem["key"] == "slurm_database_storage_host"
    assert options_problems(HOSTS, "localhost") == []


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (f"# GALERA saved state\nversion: 2.1\nuuid:    {ONE}\nseqno:   42\nsafe_to_bootstrap: 1\n", (ONE, 42, True)),
        (f"uuid:    {ONE}\nseqno:   -1\nsafe_to_bootstrap: 0\n", (ONE, -1, False)),
        ("uuid:    00000000-0000-0000-0000-000000000000\nseqno:   -1\nsafe_to_bootstrap: 1\n", ("", -1, True)),
        (f"uuid: {ONE}\nseqno: damaged\n", (ONE, -1, False)),
        ("", ("", -1, False)),
    ],
)
def test_the_state_that_a_host_has_noted(text: str, state: tuple[str, int, bool]) -> None:
    assert parse_state(text) == state


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (f"WSREP: Recovered position {ONE}:17\n--wsrep_start_position={ONE}:17\n", Position(ONE, 17)),
        (f"2026-11-25 9:00:00 0 [Note] WSREP: Recovered position: {ONE}:17,0-1-5\n", Position(ONE, 17)),
        ("--wsrep_start_position=00000000-0000-0000-0000-000000000000:-1\n", Position("", -1)),
        ("WSREP: Position recovery skipped.\n\n", Position("", -1)),
        ("", Position("", -1)),
    ],
)
def test_the_position_that_a_killed_host_recovers(text: str, position: Position) -> None:
    assert parse_position(text) == position
