"""Tests of the culprit search with given results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.culprit_search import Locator, locate
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.tournament import (
    neighbours,
    round_robin,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from search_simulation import (
    Fabric,
    Faults,
    node_names,
    switch_names,
)

Answer = dict[str, Any]
NODES = ["gpu1", "gpu2", "gpu3", "gpu4"]


def _drive(fabric: Fabric, nodes: list[str], topology: dict[str, list[str]] | None) -> tuple[Answer, list[Answer]]:
    """Run the search to its end as a caller that keeps only the results."""
    results: list[Answer] = []
    for _ in range(100):
        answer = locate(nodes, results, topology)
        if answer["done"]:
            return answer, results
        assert answer["tests"]
        assert max(Counter(node for test in answer["tests"] for node in test).values()) == 1
        results += [fabric.run(tuple(test)) for test in answer["tests"]]
    pytest.fail("no end")


def _result(nodes: list[str], busbw: float | None = 100.0, outcome: str = "ok") -> Answer:
    return {"nodes": nodes, "busbw": busbw, "floor": 80.0, "outcome": outcome}


@pytest.mark.parametrize("count", range(2, 18))
def test_round_robin_pairs_all_nodes_exactly_once(count: int) -> None:
    rounds = round_robin(node_names(count))
    games = [frozenset(game) for games in rounds for game in games]
    assert len(rounds) == (count if count % 2 else count - 1)
    assert len(set(games)) == len(games) == count * (count - 1) // 2
    assert all(len({node for game in games for node in game}) == 2 * len(games) for games in rounds)


@pytest.mark.parametrize(("count", "size"), [(2, 4), (3, 1), (17, 8), (31, 8), (33, 32), (64, 3)])
def test_neighbours_include_all_nodes(count: int, size: int) -> None:
    topology = switch_names(node_names(count), size)
    switch_of = {node: switch for switch, nodes in topology.items() for node in nodes}
    tests = neighbours(node_names(count), switch_of)
    assert sorted(node for test in tests for node in test) == node_names(count)
    assert sorted(map(len, tests))[:-1] == [2] * (len(tests) - 1)


@pytest.mark.parametrize("count", range(2, 41))
@pytest.mark.parametrize("where", [0, -1])
def test_single_slow_node_is_found(count: int, where: int) -> None:
    nodes = node_names(count)
    answer, results = _drive(Fabric({"": nodes}, Faults(slow=frozenset({nodes[where]}))), nodes, None)
    assert [entry["node"] for entry in answer["nodes"]] == [nodes[where]]
    assert answer["links"] == answer["boundaries"] == []
    entry = answer["nodes"][0]
    evidence = [results[i] for i in entry["results"]]
    assert entry["verdict"] == "FAIL"
    assert all(nodes[where] in test["nodes"] and test["busbw"] < test["floor"] for test in evidence)
    partners = {node for test in evidence for node in test["nodes"]} - {nodes[where]}
    assert len(partners) >= 2 or all(len(test["nodes"]) == 1 for test in evidence)


@pytest.mark.parametrize("outcome", ["crashed", "hung"])
def test_crash_is_inconclusive(outcome: str) -> None:
    results = [_result([one, other]) for one in NODES[:3] for other in NODES[:3] if one < other]
    results += [_result([one, "gpu4"], None, outcome) for one in NODES[:3]]
    answer = locate(NODES, [*results, _result(NODES[:3])])
    assert answer["done"]
    assert [(e["node"], e["verdict"], e["kinds"]) for e in answer["nodes"]] == [("gpu4", "INCONCLUSIVE", [outcome])]


def test_wrong_sums_are_a_failure() -> None:
    results = [_result([one, other]) for one in NODES[:3] for other in NODES[:3] if one < other]
    results += [_result([one, "gpu4"], 100.0, "wrong") for one in NODES[:3]]
    answer = locate(NODES, [*results, _result(NODES[:3])])
    assert [(e["node"], e["verdict"]) for e in answer["nodes"]] == [("gpu4", "FAIL")]


def test_missing_result_blames_no_node() -> None:
    results = [_result([one, other]) for one in NODES[:3] for other in NODES[:3] if one < other]
    results += [_result([one, "gpu4"], None, "inconclusive") for one in NODES[:3]]
    answer = locate(NODES, [*results, _result(NODES[:3])])
    assert answer["done"]
    assert answer["nodes"] == []
    assert answer["unresolved"][0]["nodes"] == ["gpu4"]


def test_slow_link_is_not_a_slow_node() -> None:
    answer, _results = _drive(Fabric({"": NODES}, Faults(links=frozenset({("gpu1", "gpu3")}))), NODES, None)
    assert [entry["nodes"] for entry in answer["links"]] == [["gpu1", "gpu3"]]
    assert answer["nodes"] == answer["boundaries"] == answer["unresolved"] == []


def test_pair_that_is_slow_only_once_blames_no_node() -> None:
    fabric = Fabric({"": NODES})
    once = [_result(["gpu1", "gpu2"], 50.0)]
    results: list[Answer] = list(once)
    while not (answer := locate(NODES, results))["done"]:
        results += [fabric.run(tuple(test)) for test in answer["tests"]]
    assert [answer[key] for key in ("nodes", "links", "boundaries", "unresolved")] == [[], [], [], []]


@pytest.mark.parametrize("named", [True, False])
def test_boundary_between_two_halves(named: bool) -> None:  # noqa: FBT001 - a case
    topology = {"leaf1": NODES[:2], "leaf2": NODES[2:]}
    fabric = Fabric(topology, Faults(uplinks=frozenset({"leaf2"})))
    answer, _results = _drive(fabric, NODES, topology if named else None)
    (boundary,) = answer["boundaries"]
    assert sorted(boundary["sides"]) == [NODES[:2], NODES[2:]]
    assert boundary["switches"] == (["leaf1", "leaf2"] if named else [])
    assert answer["nodes"] == answer["links"] == []


def test_oversubscribed_boundary_is_found_without_a_slow_pair() -> None:
    nodes = node_names(16)
    halves = {"leaf1": nodes[:8], "leaf2": nodes[8:]}
    results: list[Answer] = []
    while not (answer := locate(nodes, results, halves))["done"]:
        for test in answer["tests"]:
            across = min(sum(node in half for node in test) for half in halves.values())
            results.append(_result(test, 100.0 if across < 2 else 40.0))
    assert answer["nodes"] == []
    assert [entry["switches"] for entry in answer["boundaries"]] == [["leaf1", "leaf2"]]


def test_uniformly_slow_nodes_are_unresolved() -> None:
    results: list[Answer] = []
    while not (answer := locate(NODES, results))["done"]:
        results += [_result(test, 100.0 if len(test) == 1 else 50.0) for test in answer["tests"]]
    assert answer["nodes"] == answer["links"] == []
    assert answer["unresolved"][0]["nodes"] == NODES


def test_slow_node_is_found_relative_to_peers_without_a_floor() -> None:
    nodes = node_names(8)
    results: list[Answer] = []
    while not (answer := locate(nodes, results))["done"]:
        for test in answer["tests"]:
            busbw = 100.0 if "node0003" not in test else 60.0
            results.append({"nodes": test, "busbw": busbw, "floor": None, "outcome": "ok"})
    assert [entry["node"] for entry in answer["nodes"]] == ["node0003"]
    assert answer["unresolved"] == []


@pytest.mark.parametrize(
    ("nodes", "results", "topology", "words"),
    [
        (["a", "a"], [], None, "listed twice: a"),
        (["a", "b"], [], {"s": ["a"]}, "does not list b"),
        (["a"], [], {"s": ["a"], "t": ["a"]}, "lists a under s and t"),
        (["a"], [{"nodes": []}], None, "result 0 has no nodes"),
        (["a"], [{"nodes": ["a"], "outcome": "bad"}], None, "outcome 'bad'"),
        (["a"], [{"nodes": ["a"], "busbw": "fast"}], None, "busbw 'fast'"),
        (["a"], [{"nodes": ["a"], "busbw": float("nan")}], None, "busbw nan"),
        (["a"], [{"nodes": ["a"], "busbw": 1.0, "floor": 0}], None, "floor 0"),
        (["a"], [{"nodes": ["a"], "busbw": 1.0, "repeats": [1.0, -1.0]}], None, "repeats -1.0"),
    ],
)
def test_bad_input(nodes: list[str], results: list[Answer], topology: dict[str, list[str]] | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        locate(nodes, results, topology)


def test_search_without_nodes_is_done() -> None:
    assert locate([], [])["done"]


def test_one_node_is_tested_alone() -> None:
    answer, _results = _drive(Fabric({"": ["gpu1"]}, Faults(slow=frozenset({"gpu1"}))), ["gpu1"], None)
    assert [(entry["node"], entry["reason"]) for entry in answer["nodes"]] == [("gpu1", "slow alone")]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(count=st.integers(1, 60), size=st.integers(1, 20), data=st.data())
def test_answers_do_not_depend_on_the_order_of_results(count: int, size: int, data: st.DataObject) -> None:
    nodes = node_names(count)
    topology = switch_names(nodes, size)
    slow = data.draw(st.sampled_from(nodes))
    fabric = Fabric(topology, Faults(slow=frozenset({slow})))
    answer, results = _drive(fabric, nodes, topology)
    assert locate(nodes, results, topology) == answer
    for one, other in ((start, start + 7) for start in range(0, len(results) - 7, 7)):
        half = locate(nodes, results[:one] + results[one:other], topology)
        assert not half["done"]


def test_pairs_within_a_rack_are_not_compared_with_pairs_between_racks() -> None:
    """A pair over NICs may reach twice its floor, a pair on NVLink a quarter above its floor; neither is slow."""
    nodes = [f"{rack}{number}" for rack in "abcd" for number in (1, 2)]
    results: list[dict[str, Any]] = []
    for _ in range(40):
        answer = locate(nodes, results)
        if answer["done"]:
            break
        for test in answer["tests"]:
            inside = len({node[0] for node in test}) == 1
            results.append(
                {"nodes": test, "outcome": "ok", "scope": "inter_node" if inside else "inter_domain"}
                | ({"busbw": 840.0, "floor": 670.0} if inside else {"busbw": 340.0, "floor": 150.0})
            )
    assert answer["done"]
    assert (answer["nodes"], answer["links"], answer["boundaries"], answer["unresolved"]) == ([], [], [], [])


def test_few_nodes_slower_together_than_in_pairs_are_suspected_at_once() -> None:
    locator = Locator(["a", "b", "c", "d"])
    while locator.question is not None:
        assert locator.rounds < 10
        locator.tell(
            [
                {
                    "nodes": list(test),
                    "busbw": busbw,
                    "floor": 50.0,
                    "repeats": [busbw * pace for pace in (0.99, 1, 1.01)],
                }
                for test in locator.question.tests
                for busbw in [100.0 if len(test) == 2 else 80.0]
            ]
        )
    (suspected,) = locator.found["suspected"]
    assert (suspected["nodes"], suspected["reason"].split(",")[0]) == (
        ["a", "b", "c", "d"],
        "slower together than smaller groups; too few tests of this size to determine whether that is normal",
    )
    assert [kind for kind, found in locator.found.items() if found] == ["suspected"]
