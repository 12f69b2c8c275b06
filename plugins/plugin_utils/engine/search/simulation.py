# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated fabric with faults, used to test the culprit search.

A test is as slow as its slowest part: its nodes, the connections between all of its nodes, and, if it spans several
switches, their uplinks. Healthy nodes differ by a constant, normally distributed factor, the spread; noise is another
normally distributed factor for each repeat of a test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

from .decide import DROP, MOST_REPEATS
from .locate import Locator

__all__ = ["Fabric", "Faults", "node_names", "random_faults", "simulate", "switch_names"]

BUSBW = 100.0
FLOOR = 80.0
SLOW = 0.5


@dataclass(frozen=True)
class Faults:
    """The faults of a fabric.

    Attributes:
        slow: nodes that slow down every test they take part in.
        slow_nic: nodes that slow down tests with other nodes, but not tests alone.
        crash: nodes on which every test crashes.
        links: pairs of nodes that are slow together.
        uplinks: switches that slow down every test that includes nodes of other switches.
    """

    slow: frozenset[str] = frozenset()
    slow_nic: frozenset[str] = frozenset()
    crash: frozenset[str] = frozenset()
    links: frozenset[tuple[str, str]] = frozenset()
    uplinks: frozenset[str] = frozenset()

    def names(self) -> set[str]:
        """Return each fault by name: a node, a pair as A-B (sorted), or a switch."""
        links = {"-".join(sorted(link)) for link in self.links}
        return links | self.slow | self.slow_nic | self.crash | self.uplinks


def node_names(count: int) -> list[str]:
    """Return the names node0000, node0001 and so on."""
    return [f"node{i:04d}" for i in range(count)]


def switch_names(nodes: list[str], size: int) -> dict[str, list[str]]:
    """Return switch00, switch01, … with this many nodes each."""
    return {f"switch{i // size:02d}": nodes[i : i + size] for i in range(0, len(nodes), size)}


@dataclass
class Fabric:
    """A fabric that answers tests.

    Attributes:
        topology: nodes of each switch.
        noise: standard deviation of one repeat as a share of the bandwidth.
        random: source of spread and noise.
        speed: share of the bandwidth that a fault leaves.
        spread: standard deviation of the nodes as a share of the bandwidth.
    """

    topology: dict[str, list[str]]
    faults: Faults = Faults()
    noise: float = 0.0
    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - noise, not a secret
    speed: float = SLOW
    spread: float = 0.0

    def __post_init__(self) -> None:
        """Map nodes to switches and draw the speed of each node."""
        self._switch_of = {node: switch for switch, nodes in self.topology.items() for node in nodes}
        self._pace = {node: self.random.gauss(1.0, self.spread) for node in self._switch_of if self.spread}

    def run(self, test: tuple[str, ...], repeats: int = 1) -> dict[str, Any]:
        """Return the result of a test with this many repeats, in the format of the culprit search."""
        result: dict[str, Any] = {"nodes": list(test), "busbw": None, "floor": FLOOR, "outcome": "ok"}
        if self.faults.crash.intersection(test):
            return {**result, "outcome": "crashed"}
        pace = BUSBW * min((self._pace.get(node, 1.0) for node in test), default=1.0)
        pace *= self.speed if self._is_slow(test) else 1.0
        measured = [pace * max(0.0, self.random.gauss(1.0, self.noise)) for _ in range(repeats)]
        return {**result, "busbw": median(measured), "repeats": measured}

    def _is_slow(self, test: tuple[str, ...]) -> bool:
        group = set(test)
        faults = self.faults
        if faults.slow & group or (len(test) > 1 and faults.slow_nic & group):
            return True
        if any(group.issuperset(link) for link in faults.links):
            return True
        if not faults.uplinks:
            return False
        switches = {self._switch_of[node] for node in test}
        return len(switches) > 1 and not switches.isdisjoint(faults.uplinks)


def simulate(fabric: Fabric, drop: float = DROP, most_repeats: int = MOST_REPEATS) -> dict[str, Any]:
    """Run the culprit search against a fabric.

    Args:
        fabric: answers the tests.
        drop: as for search.locate.locate.
        most_repeats: as for search.locate.locate.

    Returns:
        rounds, tests; found, missed, wrongly_blamed and suspected (names as in Faults.names; a fault that is not blamed
        but whose nodes are listed as suspected or unresolved counts as suspected, not as missed); unresolved (lists of
        nodes) and false_suspicions (lists of nodes without a fault).
    """
    nodes = [node for members in fabric.topology.values() for node in members]
    locator = Locator(nodes, fabric.topology, drop, most_repeats)
    rounds = tests = 0
    while locator.question is not None:
        rounds += 1
        tests += len(locator.question.tests)
        repeats = locator.question.repeats
        locator.tell([fabric.run(test, repeats) for test in locator.question.tests])
    blamed = _blamed(locator.found, fabric.faults)
    places = {name: _nodes_of(name, fabric) for name in sorted(fabric.faults.names())}
    unresolved = [entry["nodes"] for entry in locator.found["unresolved"]]
    suspected = [entry["nodes"] for entry in locator.found["suspected"]]
    left = {name: near for name, near in places.items() if name not in blamed}
    named_near = {name for name, near in left.items() if any(_tells(named, near) for named in unresolved + suspected)}
    return {
        "rounds": rounds,
        "tests": tests,
        "found": sorted(blamed & places.keys()),
        "suspected": sorted(named_near),
        "missed": sorted(left.keys() - named_near),
        "wrongly_blamed": sorted(blamed - places.keys()),
        "unresolved": unresolved,
        "false_suspicions": [named for named in suspected if not any(_tells(named, near) for near in places.values())],
    }


def _nodes_of(name: str, fabric: Fabric) -> tuple[set[str], bool]:
    """Return the nodes of a fault, and whether a test needs all of them to show it."""
    if name in fabric.topology:
        return set(fabric.topology[name]), False
    return set(name.split("-")), True


def _tells(named: list[str], near: tuple[set[str], bool]) -> bool:
    """Return whether the named nodes contain those of a fault."""
    nodes, together = near
    return nodes <= set(named) if together else not nodes.isdisjoint(named)


def _blamed(found: dict[str, list[dict[str, Any]]], faults: Faults) -> set[str]:
    """Return the names of all blamed faults; a boundary between two switches counts as the one with the bad uplink."""
    names = {entry["node"] for entry in found["nodes"]}
    names |= {"-".join(entry["nodes"]) for entry in found["links"]}
    for entry in found["boundaries"]:
        bad = faults.uplinks.intersection(entry["switches"])
        names |= bad or {" and ".join(entry["switches"]) or " | ".join(side[0] for side in entry["sides"])}
    return names


def random_faults(topology: dict[str, list[str]], count: int, random: Random) -> Faults:
    """Return faults of all kinds, none hidden by another: 60 % slow nodes, then crashes, links and uplinks.

    Args:
        topology: nodes of each switch; with fewer than three switches no uplink is made bad.
        count: number of faults.
        random: source of randomness.
    """
    nodes = [node for members in topology.values() for node in members]
    switch_of = {node: switch for switch, members in topology.items() for node in members}
    names = ["slow", "slow_nic", "crash", "link", "uplink"]
    kinds = random.choices(names, [3, 3, 2, 1, 1 if len(topology) > 2 else 0], k=count)  # noqa: PLR2004 - to tell two
    picked: dict[str, list[Any]] = {kind: [] for kind in names}
    free = dict.fromkeys(random.sample(nodes, len(nodes)))
    for kind in sorted(kinds, key=names.index, reverse=True):
        one = next(iter(free))
        if kind == "uplink":
            picked[kind].append(switch_of[one])
            for node in topology[switch_of[one]]:
                free.pop(node, None)
            continue
        del free[one]
        if kind == "link":
            other = next(iter(free))
            del free[other]
        picked[kind].append((one, other) if kind == "link" else one)
    return Faults(*(frozenset(picked[kind]) for kind in names))
