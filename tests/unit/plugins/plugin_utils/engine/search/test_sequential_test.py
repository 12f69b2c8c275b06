"""Tests of the sequential test that separates slow nodes from noise, and of the normal value."""

from __future__ import annotations

from math import log
from random import Random

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search import sequential_test
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.fast_or_slow import Reading, Readings
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.search.search_data import PASSED, SLOW


def _random(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - noise, not a secret


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
@pytest.mark.parametrize("left", [1.0, 0.9])
def test_computed_number_of_repeats_decides_correctly(noise: float, left: float) -> None:
    random = _random(1)
    distance = sequential_test.smallest_drop(noise)
    number = sequential_test.repeats_for(noise, distance)
    assert number <= sequential_test.MOST_REPEATS
    at = -distance / 2
    told = []
    for _ in range(2000):
        samples = [sequential_test.logarithm(left * random.gauss(1, noise)) for _ in range(number)]
        told.append(sequential_test.likelihood(samples, at, noise, distance))
    wrong = [value for value in told if (value if left < 1 else -value) >= sequential_test.BOUND]
    open_ = [value for value in told if abs(value) < sequential_test.BOUND]
    assert wrong == []
    assert len(open_) < 20


def test_repeats_measure_the_noise_even_if_nodes_differ() -> None:
    random = _random(2)
    noise = sequential_test.Noise()
    for _ in range(300):
        pace = random.gauss(1, 0.1)
        noise.add([log(pace * random.gauss(1, 0.03)) for _ in range(3)])
    assert noise.level([]) == pytest.approx(0.031, abs=0.002)


def test_noise_of_few_repeats_is_estimated_higher() -> None:
    noise = sequential_test.Noise()
    noise.add([0.0, 0.02])
    assert noise.level([]) > 0.05
    assert sequential_test.Noise().level([]) == 0.05


@pytest.mark.parametrize(("rounding", "kind"), [(0.0, SLOW), (0.01, SLOW), (0.2, PASSED)])
def test_coarsely_printed_value_is_suspected_and_not_slow(rounding: float, kind: str) -> None:
    readings = Readings(sequential_test.DROP, sequential_test.MOST_REPEATS)
    asked = [Reading((f"a{i}", f"b{i}")) for i in range(8)]
    for place, reading in enumerate(asked):
        busbw = 0.09 if place == 0 else 0.11
        result = {"busbw": busbw, "floor": None, "repeats": [busbw * pace for pace in (0.999, 1, 1.001)] * 4}
        reading.take({**result, "rounding": rounding}, place)
    readings.read(asked)
    assert [reading.outcome().kind for reading in asked] == [kind] + [PASSED] * 7
    assert readings.undecided(asked) == []
    assert [reading.coarse for reading in asked] == [kind == PASSED] + [False] * 7
    if kind == PASSED:
        reason = readings.suspected(asked[0])["reason"]
        assert "82 % of the normal value for this number of nodes, with a rounding error of up to 20 %" in reason
        assert "lower validation_max_bytes until a message takes less than 10 s" in reason


def test_slow_tests_do_not_lower_the_normal_value() -> None:
    assert sequential_test.normal([0.0] * 4 + [-0.7] * 6, 0.1) == 0.0
    assert sequential_test.normal([0.0] * 4, 0.1) is None


@pytest.mark.parametrize(
    ("busbw", "kind", "sure"),
    [(98.0, PASSED, True), (88.0, SLOW, True), (60.0, SLOW, True)],
)
def test_test_is_compared_with_others_of_its_size(busbw: float, kind: str, sure: bool) -> None:  # noqa: FBT001 - a case
    readings = Readings(sequential_test.DROP, sequential_test.MOST_REPEATS)
    asked = [Reading((f"a{number}", f"b{number}")) for number in range(6)]
    for place, reading in enumerate(asked):
        measured = 100.0 + place / 10 if place else busbw
        reading.take({"nodes": list(reading.nodes), "busbw": measured, "floor": 80.0, "repeats": [measured] * 3}, place)
    readings.read(asked)
    assert readings.undecided(asked) == []
    outcome = asked[0].outcome()
    assert (outcome.kind, outcome.sure) == (kind, sure)


def test_test_of_more_nodes_than_compared_is_suspected_at_most() -> None:
    readings = Readings(sequential_test.DROP, sequential_test.MOST_REPEATS)
    pairs = [Reading((f"a{number}", f"b{number}")) for number in range(6)]
    whole = Reading(tuple(node for pair in pairs for node in pair.nodes), drawn=False)
    for place, reading in enumerate([*pairs, whole]):
        busbw = 100.0 if reading is not whole else 88.0
        reading.take({"nodes": list(reading.nodes), "busbw": busbw, "floor": 80.0, "repeats": [busbw] * 3}, place)
    readings.read(pairs)
    readings.read([whole])
    assert (whole.outcome().kind, whole.outcome().sure, whole.outcome().guilty) == (SLOW, False, False)


def test_slow_pairs_without_repeats_are_not_noise() -> None:
    random = _random(3)
    means = [log(random.gauss(1, 0.03)) - (0.7 if number % 5 < 2 else 0) for number in range(500)]
    assert sequential_test.Noise().level(means) == pytest.approx(0.03, abs=0.012)
    assert sequential_test.Noise().level([0.0, 0.0, 0.0, -1.4, -1.4, -1.4]) == 0.01
