"""Tests of untested pairs and of tests that cover half of them."""

from __future__ import annotations

from itertools import combinations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.bisection import Duel
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.link_search import LinkSearch
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.link_search_state import Block, Untested
from hypothesis import given
from hypothesis import strategies as st

NODES = [f"gpu{i}" for i in range(8)]


def _open(tests: list[list[str]]) -> set[frozenset[str]]:
    """Return the pairs that no test covers, by enumeration."""
    pairs = {frozenset(pair) for pair in combinations(NODES, 2)}
    return {pair for pair in pairs if not any(pair <= set(test) for test in tests)}


def _after(tests: list[list[str]]) -> Untested:
    untested = Untested(NODES)
    for test in tests:
        untested.clear(test)
    return untested


@pytest.mark.parametrize(
    ("tests", "parts", "sides"),
    [
        ([], [tuple(NODES)], None),
        ([NODES], [], None),
        ([NODES[:4], NODES[4:]], [tuple(NODES)], (tuple(NODES[:4]), tuple(NODES[4:]))),
        ([NODES[:7], NODES[1:]], [("gpu0", "gpu7")], (("gpu0",), ("gpu7",))),
    ],
)
def test_parts_and_sides(
    tests: list[list[str]], parts: list[tuple[str, ...]], sides: tuple[tuple[str, ...], tuple[str, ...]] | None
) -> None:
    untested = _after(tests)
    assert untested.components(NODES) == parts
    assert [untested.sides(part) for part in parts] == [sides] * len(parts)


@given(st.lists(st.lists(st.sampled_from(NODES), unique=True), max_size=8))
def test_every_untested_pair_lies_in_one_part(tests: list[list[str]]) -> None:
    untested, left = _after(tests), _open(tests)
    assert untested.count(NODES) == len(left)
    assert untested.holds(NODES) == bool(left)
    parts = untested.components(NODES)
    assert len({node for part in parts for node in part}) == sum(map(len, parts))
    assert all(any(pair <= set(part) for part in parts) for pair in left)
    for part in parts:
        sides = untested.sides(part)
        if sides:
            assert all(len(pair & set(sides[0])) == 1 for pair in left if pair <= set(part))


@given(st.lists(st.lists(st.sampled_from(NODES), unique=True), max_size=8))
def test_groups_hold_a_third_of_the_untested_pairs(tests: list[list[str]]) -> None:
    untested, left = _after(tests), _open(tests)
    for part in untested.components(NODES):
        groups = untested.groups(part)
        assert len({node for group in groups for node in group}) == sum(map(len, groups))
        held = sum(untested.count(group) for group in groups)
        assert 3 * held >= sum(pair <= set(part) for pair in left)


def test_test_without_an_outcome_is_not_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_take_in", "_close_borders"):
        monkeypatch.setattr(LinkSearch, name, lambda _: None)
    monkeypatch.setattr(LinkSearch, "_clean", lambda *_: True)
    monkeypatch.setattr(LinkSearch, "_plan", lambda *_: [("item", [Block(("gpu0", "gpu1"))])])
    monkeypatch.setattr(LinkSearch, "_question", lambda *_: None)
    search = object.__new__(LinkSearch)
    search.items, search.found = [Duel(Block(("gpu0", "gpu1")), [])], 0
    rounds = search.run()
    next(rounds)
    with pytest.raises(ValueError, match="0 outcomes for 1 tests"):
        rounds.send([])
