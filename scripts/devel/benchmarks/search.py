"""Measures rounds and tests of the culprit search, compared with tests of all pairs.

The fabrics are simulated, each with one fault. N nodes have N (N - 1) / 2 pairs, which take as many rounds one by one;
a round-robin tests N / 2 pairs at a time, in N - 1 rounds.
"""

from __future__ import annotations

import time
from random import Random
from statistics import median
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.option_values import percent, whole
from search_simulation import (
    Fabric,
    node_names,
    random_faults,
    simulate,
    switch_names,
)

from devel.benchmark_figures import Figure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

GOALS = ()

_LEAST, _MOST = 16, 10_000
_MOST_TRIALS = 10_000
_MOST_NOISE = 50.0
_SWITCH = 32


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--nodes", default="16,64,256,1024,4096", metavar="N,…", help="default 16,64,256,1024,4096")
    parser.add_argument("--trials", default="20", metavar="T", help="fabrics of each size; default 20")
    parser.add_argument("--noise", default="2", metavar="PCT", help="standard deviation of each test; default 2")


def _sizes(args: argparse.Namespace) -> list[int]:
    sizes = [whole("--nodes", text, _LEAST, _MOST) for text in args.nodes.split(",")]
    if len(set(sizes)) < len(sizes):
        message = f"--nodes: {args.nodes!r} contains a duplicate"
        raise UsageError(message)
    return sizes


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """Yield the figures for each size.

    Raises:
        UsageError: an option is not a number, or out of range.
        ValueError: the search missed a culprit or blamed a healthy part.
    """
    sizes = _sizes(args)
    trials = whole("--trials", args.trials, 1, _MOST_TRIALS)
    noise = percent("--noise", args.noise, 0, _MOST_NOISE)
    for size in sizes:
        topology = switch_names(node_names(size), _SWITCH)
        results = []
        began = time.process_time()
        for seed in range(trials):
            random = Random(seed)  # noqa: S311 - noise, not a secret
            results.append(simulate(Fabric(topology, random_faults(topology, 1, random), noise, random)))
        spent = time.process_time() - began
        yield Figure("rounds", median(result["rounds"] for result in results), "rounds", at=size)
        yield Figure("round_robin_rounds", size - 1, "rounds", at=size)
        yield Figure("tests", median(result["tests"] for result in results), "tests", at=size)
        yield Figure("all_pairs_tests", size * (size - 1) // 2, "tests", at=size)
        yield Figure("cpu_per_search", round(1000 * spent / trials, 1), "ms", at=size)
        bad = [seed for seed, result in enumerate(results) if result["missed"] or result["wrongly_blamed"]]
        if bad:
            message = f"{size} nodes, seed {bad[0]}: the search missed the culprit or blamed a healthy node"
            raise ValueError(message)
