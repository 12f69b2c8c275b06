"""Tests of the culprit search on simulated fabrics."""

from __future__ import annotations

import itertools
import os
from random import Random

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.culprit_search import Locator
from hypothesis import given, settings
from hypothesis import strategies as st
from search_simulation import (
    Fabric,
    Faults,
    node_names,
    random_faults,
    simulate,
    switch_names,
)
from search_trials import run_trial, table

NODE = "node{:04d}".format


def _random(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - noise, not a secret


def _fabric(count: int, size: int, faults: Faults, noise: float = 0.05, seed: int = 1) -> Fabric:
    return Fabric(switch_names(node_names(count), size), faults, noise, _random(seed))


TWO_LINKS = frozenset({(NODE(36), NODE(72)), (NODE(56), NODE(67))})


@pytest.mark.parametrize(
    ("count", "size", "faults"),
    [
        (8, 4, Faults(slow=frozenset({NODE(0), NODE(1)}))),
        (8, 4, Faults(slow=frozenset({NODE(2)}), crash=frozenset({NODE(7)}))),
        (16, 4, Faults(slow_nic=frozenset({NODE(3)}), links=frozenset({(NODE(5), NODE(6))}))),
        (16, 4, Faults(uplinks=frozenset({"switch01"}), slow=frozenset({NODE(0)}))),
        (15, 4, Faults(links=frozenset({(NODE(0), NODE(14)), (NODE(0), NODE(7))}))),
        (40, 8, Faults(uplinks=frozenset({"switch03"}))),
        (40, 8, Faults(links=frozenset({(NODE(1), NODE(39))}))),
        (64, 16, Faults(slow=frozenset({NODE(0), NODE(1), NODE(2), NODE(3)}))),
        (64, 8, Faults(uplinks=frozenset({"switch00", "switch05"}), crash=frozenset({NODE(63)}))),
        (100, 32, Faults(links=frozenset({(NODE(4), NODE(5))}))),
        # Two bad links of one switch are not a bad uplink; the ends of a known link can still be behind a bad uplink.
        (17, 8, Faults(links=frozenset({(NODE(4), NODE(12)), (NODE(13), NODE(16))}))),
        (24, 8, Faults(links=frozenset({(NODE(4), NODE(18)), (NODE(15), NODE(21))}))),
        (
            80,
            32,
            Faults(links=TWO_LINKS, uplinks=frozenset({"switch00"})),
        ),
        (24, 8, Faults(links=frozenset({(NODE(13), NODE(14))}), uplinks=frozenset({"switch00"}))),
    ],
)
def test_faults_are_found(count: int, size: int, faults: Faults) -> None:
    answer = simulate(_fabric(count, size, faults))
    assert (answer["missed"], answer["wrongly_blamed"]) == ([], [])
    assert answer["found"] == sorted(faults.names())
    assert answer["rounds"] <= 30


@settings(max_examples=60, deadline=None, derandomize=True)
@given(count=st.integers(1, 80), size=st.integers(1, 32), noise=st.floats(0, 0.07), seed=st.integers(0, 10**6))
def test_healthy_fabric_blames_no_node(count: int, size: int, noise: float, seed: int) -> None:
    answer = simulate(_fabric(count, size, Faults(), noise, seed))
    assert answer["found"] == answer["missed"] == answer["wrongly_blamed"] == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(count=st.integers(2, 40), data=st.data(), seed=st.integers(0, 10**6))
def test_every_single_slow_node_is_found(count: int, data: st.DataObject, seed: int) -> None:
    node = NODE(data.draw(st.integers(0, count - 1)))
    size = data.draw(st.integers(1, count))
    answer = simulate(_fabric(count, size, Faults(slow=frozenset({node})), 0.05, seed))
    assert (answer["found"], answer["wrongly_blamed"]) == ([node], [])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(count=st.integers(4, 60), data=st.data(), seed=st.integers(0, 10**6))
def test_slow_link_is_named_as_link(count: int, data: st.DataObject, seed: int) -> None:
    one, other = sorted(data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True)))
    size = data.draw(st.sampled_from([4, 8, count]))
    answer = simulate(_fabric(count, size, Faults(links=frozenset({(NODE(one), NODE(other))})), 0.05, seed))
    assert (answer["found"], answer["wrongly_blamed"]) == ([f"{NODE(one)}-{NODE(other)}"], [])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(switches=st.integers(3, 9), size=st.integers(2, 9), data=st.data(), seed=st.integers(0, 10**6))
def test_bad_uplink_is_named_instead_of_a_node(switches: int, size: int, data: st.DataObject, seed: int) -> None:
    bad = f"switch{data.draw(st.integers(0, switches - 1)):02d}"
    answer = simulate(_fabric(switches * size, size, Faults(uplinks=frozenset({bad})), 0.05, seed))
    assert (answer["found"], answer["wrongly_blamed"]) == ([bad], [])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(count=st.integers(24, 80), faults=st.integers(0, 4), seed=st.integers(0, 10**6))
def test_several_faults_blame_no_healthy_node(count: int, faults: int, seed: int) -> None:
    random = _random(seed)
    topology = switch_names(node_names(count), 8)
    answer = simulate(Fabric(topology, random_faults(topology, faults, random), 0.05, random))
    assert answer["wrongly_blamed"] == []


def _fitting(fabric: Fabric, seed: int = 0, cut: float = 0.0) -> list[list[str]]:
    """Return the nodes that the search would name after each round; `cut` is the share of tests without a result."""
    nodes = [node for members in fabric.topology.values() for node in members]
    locator, random = Locator(nodes, fabric.topology), _random(seed)
    found = []
    while locator.question is not None and locator.rounds < 40:
        results = [fabric.run(test, locator.question.repeats) for test in locator.question.tests]
        lost = {"busbw": None, "repeats": None, "outcome": "inconclusive"}
        locator.tell([result | (lost if random.random() < cut else {}) for result in results])
        found.append([entry["node"] for entry in locator.fitting()])
    return found


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    count=st.integers(2, 60),
    faults=st.integers(0, 3),
    size=st.sampled_from([4, 8, 60]),
    cut=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 10**6),
)
def test_interrupted_search_blames_no_healthy_node(count: int, faults: int, size: int, cut: float, seed: int) -> None:
    random = _random(seed)
    topology = switch_names(node_names(count), size)
    fabric = Fabric(topology, random_faults(topology, min(faults, count // 4), random), 0.05, random)
    guilty = fabric.faults.slow | fabric.faults.slow_nic
    assert {name for names in _fitting(fabric, seed, cut) for name in names} <= guilty


@pytest.mark.parametrize(("speed", "noise"), [(0.01, 0.3), (0.5, 0.05)])
@pytest.mark.parametrize("count", [4, 5, 8, 16])
def test_interrupted_search_names_the_node_that_explains_all_results(count: int, speed: float, noise: float) -> None:
    for at in range(count):
        fabric = _fabric(count, count, Faults(slow_nic=frozenset({NODE(at)})), noise)
        fabric.speed = speed
        found = _fitting(fabric)
        # The node needs a slow pair with each of two partners, and fast pairs of these partners with others.
        assert found[0] == []
        assert [NODE(at)] in found[1:6]


def test_interrupted_search_does_not_blame_a_node_for_a_boundary() -> None:
    """Two pairs of nodes are slow across: whichever tests are missing, no single node explains it."""
    cut = [{"a", "d"}, {"b", "d"}, {"a", "b"}]

    def result(test: tuple[str, ...], lost: list[set[str]]) -> dict[str, object]:
        across = len({name in "ab" for name in test}) > 1
        measured = {"busbw": 50.0 if across else 100.0, "floor": 80.0}
        gone = {"busbw": None, "outcome": "inconclusive"}
        return {"nodes": list(test), **(gone if set(test) in lost else measured)}

    for many in range(4):
        for lost in itertools.combinations(cut, many):
            locator = Locator(list("abcd"))
            while locator.question is not None and locator.rounds < 3:
                locator.tell([result(test, list(lost)) for test in locator.question.tests])
            assert locator.fitting() == []


def test_thousand_nodes() -> None:
    topology = switch_names(node_names(1000), 32)
    for seed in range(20):
        random = _random(seed)
        slow, nic, crash = (frozenset(random.sample(topology[f"switch{i:02d}"], i % 2 + 1)) for i in (1, 2, 4))
        faults = Faults(slow, nic, crash)
        answer = simulate(Fabric(topology, faults, 0.05, random))
        assert (answer["missed"], answer["wrongly_blamed"]) == ([], [])
        assert answer["rounds"] <= 30


# Two or three bad links and faults that mask them; a search for one link at a time took 31 to 45 rounds.
@pytest.mark.parametrize("seed", [233, 455, 562, 680, 5148, 5316, 6110, 6600, 6987])
def test_several_links_are_located_in_parallel(seed: int) -> None:
    topology = switch_names(node_names(1000), 32)
    random = _random(seed)
    faults = random_faults(topology, random.randint(0, 5), random)
    answer = simulate(Fabric(topology, faults, 0.05, random))
    assert (answer["missed"], answer["wrongly_blamed"], answer["unresolved"]) == ([], [], [])
    assert answer["rounds"] <= 30


@settings(max_examples=40, deadline=None, derandomize=True)
@given(count=st.integers(17, 120), links=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_all_disjoint_links_are_found(count: int, links: int, seed: int) -> None:
    random = _random(seed)
    ends = [NODE(i) for i in random.sample(range(count), 2 * links)]
    faults = Faults(links=frozenset((min(pair), max(pair)) for pair in zip(ends[0::2], ends[1::2])))
    answer = simulate(_fabric(count, 8, faults, 0.05, seed))
    assert (answer["found"], answer["wrongly_blamed"]) == (sorted(faults.names()), [])
    assert answer["rounds"] <= 34


# The node at the end of one link fails a test of three nodes and a test of two, both over this link.
def test_two_links_are_found_if_one_ends_in_a_small_switch() -> None:
    random = _random(0)
    ends = [NODE(i) for i in random.sample(range(29), 4)]
    faults = Faults(links=frozenset((min(pair), max(pair)) for pair in zip(ends[0::2], ends[1::2])))
    answer = simulate(_fabric(29, 8, faults, 0.05, 0))
    assert (answer["found"], answer["wrongly_blamed"]) == (sorted(faults.names()), [])


@pytest.mark.parametrize("left", [0.5, 0.8, 0.87, 0.9])
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_small_faults_above_the_floor_are_distinguished_from_noise(left: float, noise: float) -> None:
    faults = Faults(
        slow_nic=frozenset({NODE(9)}), links=frozenset({(NODE(40), NODE(77))}), uplinks=frozenset({"switch06"})
    )
    fabric = Fabric(switch_names(node_names(128), 16), faults, noise, _random(3), left, spread=0.01)
    answer = simulate(fabric)
    assert (answer["found"], answer["wrongly_blamed"], answer["missed"]) == (sorted(faults.names()), [], [])
    assert answer["rounds"] <= 30


@pytest.mark.parametrize("seed", range(10))
def test_too_small_slowdown_is_suspected_and_not_blamed(seed: int) -> None:
    fabric = Fabric(
        switch_names(node_names(64), 16), Faults(slow=frozenset({NODE(9)})), 0.05, _random(seed), speed=0.95
    )
    answer = simulate(fabric)
    assert answer["wrongly_blamed"] == []


def test_suspicion_gives_the_number_of_repeats_that_would_decide() -> None:
    nodes = node_names(64)
    told = []
    for seed in range(8):
        fabric = Fabric({"": nodes}, Faults(slow=frozenset({NODE(9)})), 0.08, _random(seed), speed=0.87)
        locator = Locator(nodes, None, most_repeats=4)
        while locator.question is not None:
            repeats = locator.question.repeats
            assert repeats <= 4
            locator.tell([fabric.run(test, repeats) for test in locator.question.tests])
        assert {entry["node"] for entry in locator.found["nodes"]} <= {NODE(9)}
        assert locator.found["links"] == []
        told += [entry for entry in locator.found["suspected"] if NODE(9) in entry["nodes"] and entry["repeats"]]
    assert told
    assert all(entry["repeats"] > 12 for entry in told)
    assert all(entry["reason"].endswith(f"validate with {entry['repeats']} repeats") for entry in told)


def test_slowest_healthy_node_of_the_spread_is_not_blamed() -> None:
    # With 4 % noise this node was below the limit with two partners.
    assert run_trial(2491)["wrongly_blamed"] == []


# Regressions: searches that took 32 rounds because a concurrent sweep was repeated; few switches with two bad uplinks,
# where pairs as slow as most others counted as normal; and a switch with one node behind a bad uplink.
@pytest.mark.parametrize("seed", [10993, 23854, 25443, 28784, 38911, 42769, 51000, 64498, 97883])
def test_former_regressions_stay_within_30_rounds_and_blame_correctly(seed: int) -> None:
    answer = run_trial(seed)
    assert (answer["missed"], answer["wrongly_blamed"], answer["unresolved"]) == ([], [], [])
    assert answer["rounds"] <= 30


def test_trials_of_all_sizes() -> None:
    """BUSBAR_TEST_TRIALS sets the number of trials; scripts/test full sets 10,000."""
    number = int(os.environ.get("BUSBAR_TEST_TRIALS", "100"))
    cells = table(range(number)).values()
    assert [seed for cell in cells for seed in cell.failed_seeds] == []
    assert sum(cell.found for cell in cells) >= 0.97 * sum(cell.faults for cell in cells) > 0
    assert max(cell.most_rounds for cell in cells) <= 30


def test_same_seed_gives_the_same_answer() -> None:
    faults = Faults(links=frozenset({(NODE(1), NODE(39))}))
    assert simulate(_fabric(40, 8, faults)) == simulate(_fabric(40, 8, faults))
