"""Searches for culprits in simulated fabrics with random faults."""

from __future__ import annotations

import time
from random import Random
from statistics import median
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.search.simulation import (
    Fabric,
    node_names,
    random_faults,
    simulate,
    switch_names,
)
from busbar.option_values import percent, whole

from devel.measured import Figure, Goal, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = (Goal("missed", "<=", 0), Goal("wrongly_blamed", "<=", 0))
CHART = None

_MOST_NODES = 10_000
_MOST_TRIALS = 100_000
_MOST_FAULTS = 100
_MOST_NOISE = 50.0
_SWITCH = 32


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--nodes", default="1000", metavar="N", help="default 1000, 32 per switch")
    parser.add_argument("--trials", default="1000", metavar="T", help="default 1000, with the seeds S, S+1, …")
    parser.add_argument("--faults", default="5", metavar="N", help="up to so many in each trial; default 5")
    parser.add_argument("--noise", default="5", metavar="PCT", help="standard deviation of each test; default 5")
    parser.add_argument("--seed", default="0", metavar="S", help="default 0")


def needs(args: argparse.Namespace) -> Needs:
    """What this size takes."""
    count = whole("--nodes", args.nodes, 2, _MOST_NODES)
    return Needs(memory_mib=100 + count // 10, disk_mib=0, smaller="--nodes")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of all trials.

    Raises:
        UsageError: an option is no number, or out of range.
        ValueError: a culprit was missed or an innocent blamed.
    """
    count = whole("--nodes", args.nodes, 2, _MOST_NODES)
    trials = whole("--trials", args.trials, 1, _MOST_TRIALS)
    most = whole("--faults", args.faults, 0, min(_MOST_FAULTS, count // 4))
    noise = percent("--noise", args.noise, 0, _MOST_NOISE)
    seed = whole("--seed", args.seed, 0, 999_999_999)
    topology = switch_names(node_names(count), _SWITCH)
    results = []
    began = time.process_time()
    for trial in range(seed, seed + trials):
        random = Random(trial)  # noqa: S311 - noise, not a secret
        faults = random_faults(topology, random.randint(0, most), random)
        results.append(simulate(Fabric(topology, faults, noise, random)))
    spent = time.process_time() - began
    rounds = [result["rounds"] for result in results]
    yield Figure("trials", trials, "trials")
    yield Figure("rounds_median", median(rounds), "rounds")
    yield Figure("rounds_max", max(rounds), "rounds")
    yield Figure("tests_max", max(result["tests"] for result in results), "tests")
    yield Figure("found", sum(len(result["found"]) for result in results), "culprits")
    yield Figure("missed", sum(len(result["missed"]) for result in results), "culprits")
    yield Figure("wrongly_blamed", sum(len(result["wrongly_blamed"]) for result in results), "culprits")
    yield Figure("time_per_trial", round(1000 * spent / trials, 2), "ms of CPU")
    bad = [seed + i for i, result in enumerate(results) if result["missed"] or result["wrongly_blamed"]]
    if bad:
        message = f"{len(bad)} of {trials} trials missed a culprit or blamed an innocent, the first with seed {bad[0]}"
        raise ValueError(message)
