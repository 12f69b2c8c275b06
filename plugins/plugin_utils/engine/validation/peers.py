# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the tests of a stage with their peers.

Peers are tests of one stage with the same collective, hardware, floor, number of nodes and ranks, and largest message
size; tests of single rails are compared across all rails. A test that is further below the median of its peers than
``straggler_limit`` percent in addition to their noise (see curve.median_and_tolerance) is a straggler; a test that
exceeds only one of the two is a finding. A straggler is a FAIL even above its floor: the floor allows all nodes to be
this slow, but not a single one among faster ones.

Only passed tests with enough peers are compared, so slow stages still have to meet the floor.

Tests of the culprit search get only findings, because the search compares and repeats them itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import registry
from .curve import behind_peers, curve_of, median_and_tolerance
from .judge import FAIL, INCONCLUSIVE, PASS, STRAGGLER
from .node_checks import COLLECTIVE, kind_of
from .stage import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Options, Test

__all__ = ["FEWEST", "with_peers"]

# With fewer values the median absolute deviation is not meaningful.
FEWEST = 5
_PERCENT = 100
_BEHIND = "behind its peers: "


def with_peers(options: Options, tests: Sequence[Test]) -> list[Test]:
    """Return judged tests with the results of the comparison with their peers.

    Args:
        options: options of the validation; with a straggler_limit of 0 the tests are returned unchanged.
        tests: all tests so far. Results of an earlier call are replaced, but a straggler stays one.
    """
    if not options["straggler_limit"]:
        return list(tests)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, test in enumerate(tests):
        if _compares(test):
            groups.setdefault(_kind(test), []).append(place)
    found = list(tests)
    for places in groups.values():
        if len(places) >= FEWEST:
            _hold(options, found, places)
    return found


def _compares(test: Test) -> bool:
    measured = test["measured_busbw"] is not None and test["verdict"] != INCONCLUSIVE
    return measured and kind_of(test) == COLLECTIVE


def _kind(test: Test) -> tuple[Any, ...]:
    nodes = len(set(test["nodes"] + test["partners"]))
    rail = "" if test["stage"] == "rail" else test["rail"]
    what = (test["collective"], rail, test["hardware"], test["floor"])
    return (test["stage"], *what, nodes, test["ranks"], test["at_size"])


def _hold(options: Options, tests: list[Test], places: list[int]) -> None:
    """Compare tests with their peers, and replace those with a result by copies."""
    figures = [tests[place]["measured_busbw"] or 0.0 for place in places]
    limit = options["straggler_limit"] / _PERCENT
    middle, less = median_and_tolerance(figures, limit, proof=True)
    _middle, odd = median_and_tolerance(figures, limit)
    curves = [curve_of(tests[place]["runs"]) for place in places]
    for place, figure, curve in zip(places, figures, curves):
        test = tests[place].copy()
        test["peers"] = {"count": len(places), "median": middle, "least": middle - less}
        kept = [finding for finding in test["findings"] if not finding.startswith(_BEHIND)]
        test["findings"] = kept + [f"{_BEHIND}{words}" for words in behind_peers(curve, curves)]
        if figure < middle - less and test["verdict"] == PASS and _decides(test):
            said = f"{STRAGGLER}: {_words(figure, middle, len(places))}; {_PERCENT * less / middle:.1f} % are allowed"
            test["verdict"], test["reason"] = FAIL, f"{said}; {test['reason']}"
        elif figure < middle - odd and not test["reason"].startswith(STRAGGLER):
            test["findings"].append(f"{_BEHIND}{_words(figure, middle, len(places))}")
        tests[place] = test


def _words(figure: float, middle: float, count: int) -> str:
    share = _PERCENT * (middle - figure) / middle
    return f"{figure:.4g} GB/s is {share:.1f} % below the median of {count} like tests, {middle:.4g} GB/s"


def _decides(test: Test) -> bool:
    stage = registry.stage_of(test)
    return stage is not None and stage.counts is not Counts.WHILE_SEARCHING
