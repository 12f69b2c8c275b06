# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Run many searches in simulated fabrics of all sizes to measure the detection rate by fault size and noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from .simulation import Fabric, node_names, random_faults, simulate, switch_names

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Cell", "run_trial", "table"]

_SWITCH_SIZES = (8, 16, 32)
# The size of a fabric is drawn from this range; each doubling is equally likely.
_LEAST_NODES, _MOST_NODES = 16, 1024
_MOST_FAULTS = 3
# Shares of the bandwidth that a fault leaves, and standard deviations of one repeat; the trials cycle through them.
_LEFT = (0.5, 0.7, 0.8, 0.87, 0.9)
_NOISE = (0.01, 0.02, 0.03, 0.04, 0.05)
# Standard deviation of healthy nodes.
_SPREAD = 0.01
# At most one fault for this many nodes, so that most nodes are healthy.
_NODES_PER_FAULT = 8


@dataclass
class Cell:
    """The results of the trials with one share left and one noise: numbers of faults, innocent nodes and rounds."""

    trials: int = 0
    faults: int = 0
    found: int = 0
    suspected: int = 0
    missed: int = 0
    innocents: int = 0
    false_suspicions: int = 0
    rounds: int = 0
    most_rounds: int = 0
    failed_seeds: list[int] = field(default_factory=list)

    def add(self, seed: int, answer: dict[str, Any]) -> None:
        """Add the result of a trial."""
        self.trials += 1
        self.found += len(answer["found"])
        self.suspected += len(answer["suspected"])
        self.missed += len(answer["missed"])
        self.faults += len(answer["found"] + answer["suspected"] + answer["missed"])
        self.innocents += len(answer["wrongly_blamed"])
        self.false_suspicions += len(answer["false_suspicions"])
        self.rounds += answer["rounds"]
        self.most_rounds = max(self.most_rounds, answer["rounds"])
        if answer["missed"] or answer["wrongly_blamed"]:
            self.failed_seeds.append(seed)


def _place(seed: int) -> tuple[float, float]:
    """Return share left and noise of a trial."""
    return _LEFT[seed % len(_LEFT)], _NOISE[seed // len(_LEFT) % len(_NOISE)]


def run_trial(seed: int) -> dict[str, Any]:
    """Return the result of simulation.simulate for the fabric with this seed; equal seeds give equal results."""
    random = Random(seed)  # noqa: S311 - noise, not a secret
    count = round(_LEAST_NODES * (_MOST_NODES / _LEAST_NODES) ** random.random())
    sizes = [size for size in _SWITCH_SIZES if size <= count] or [count]
    topology = switch_names(node_names(count), random.choice(sizes))
    faults = random_faults(topology, random.randint(0, min(_MOST_FAULTS, count // _NODES_PER_FAULT)), random)
    left, noise = _place(seed)
    return simulate(Fabric(topology, faults, noise, random, left, _SPREAD))


def table(seeds: Iterable[int]) -> dict[tuple[float, float], Cell]:
    """Return the results of the trials with these seeds, by share left and noise."""
    cells = {(left, noise): Cell() for left in _LEFT for noise in _NOISE}
    for seed in seeds:
        cells[_place(seed)].add(seed, run_trial(seed))
    return cells
