# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Start the culprit searches of a validation, with the failed tests that trigger them, their nodes and collectives.

A search measures the failed collective, over one rail if the test used only that rail. If it finds no culprit, a second
search uses alltoall, because a reduction does not use all connections between its nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ....module_utils.slurm.nodes_and_jobs import CUT
from ..nccl.run_outcome import bus_factor
from ..search.culprit_search import locate
from .cluster_access import TOO_LONG
from .low_bandwidth_causes import KNOWN_CAUSE
from .nccl_judge import FAIL, INCONCLUSIVE, NO_FLOOR, PASS, STRAGGLER, out_of_place
from .planned_tests import floor_for, scope_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .validation_types import Options, State, Test

PAIR = 2
_BROKEN = frozenset({"crashed", "truncated", "error-only"})
_EVERY_CONNECTION = "alltoall"
_BLAMED = ("nodes", "links", "boundaries")
# Nodes, collective and rail of a search.
_Cause = tuple[list[str], str, str]
_HALF_UNIT_GBS = 0.005
_LONGEST_US = 1e7
# Rounding error of a time of at least 100 us, as a fraction.
_SHARE_OF_TIME = 0.0005
_FEWEST_US = 100.0


class Search(TypedDict):
    """A culprit search.

    Attributes:
        rail: the rail; empty for all.
        nodes: the nodes to examine.
        explained: whether a later search found the culprit that this one did not find.
        answer: result of locate; its results are positions among all tests.
    """

    collective: str
    rail: str
    nodes: list[str]
    explained: bool
    answer: dict[str, Any]


def made_searches(options: Options, state: State, gated: list[str]) -> list[Search]:
    """Return the culprit searches of a validation so far, in order; only the last one may be unfinished.

    Args:
        options: options of the validation.
        state: results so far.
        gated: the nodes that passed the stages before the pair stage.
    """
    found: list[Search] = []
    wanted = options["search_collective"]
    for cause, slow in _causes(options, state, wanted, gated):
        _add_search(options, state, found, cause)
        unnamed = found and not any(map(named, found))
        if slow and wanted == "auto" and unnamed and _can_widen(options, state, cause[0]):
            _widen(options, state, found, cause[0])
        if any(not search["answer"]["done"] for search in found):
            break
    for place, search in enumerate(found):
        search["explained"] = not named(search) and any(named(later) for later in found[place + 1 :])
    return found


def _causes(options: Options, state: State, wanted: str, gated: list[str]) -> list[tuple[_Cause, bool]]:
    """Return the nodes, collective and rail of each search to start, and whether the nodes were only slow."""
    first = options["collectives"][0] if wanted == "auto" else wanted
    causes = [((gated, first, ""), False)] if "pair" in options["stages"] else []
    for test in state["tests"]:
        if test["stage"] in {"cluster", "rail"} and calls_for_search(test):
            collective = test["collective"] if wanted == "auto" or test["rail"] else wanted
            slow = test["verdict"] == FAIL and search_result(test)["outcome"] == "ok" and not test["rail"]
            causes.append(((member_nodes(test), collective, test["rail"]), slow))
    return causes


def _add_search(options: Options, state: State, found: list[Search], cause: _Cause) -> None:
    """Add a search for the cause among its nodes that no earlier search has blamed."""
    nodes, collective, rail = cause
    out = {item["node"] for search in found for item in search["answer"]["nodes"] if search["rail"] in {"", rail}}
    left = [node for node in nodes if node not in out]
    known = any((search["nodes"], search["collective"], search["rail"]) == (left, collective, rail) for search in found)
    if len(left) >= PAIR and not known:
        answer = _located(options, state, (left, collective, rail))
        found.append({"collective": collective, "rail": rail, "nodes": left, "explained": False, "answer": answer})


def _widen(options: Options, state: State, found: list[Search], nodes: list[str]) -> None:
    """Add a search with alltoall if the last search found no culprit, or if only the test of all its nodes is slow.

    If the new search finds no culprit either, the first search is resumed.
    """
    before, count = found[-1]["answer"], len(found)
    if not before["done"] and not _fails_again(state, found[-1]):
        return
    _add_search(options, state, found, (nodes, _EVERY_CONNECTION, ""))
    if len(found) > count and (named(found[-1]) or not found[-1]["answer"]["done"]):
        before.update(done=True, tests=[], fitting=[])


def _fails_again(state: State, search: Search) -> bool:
    """Return whether all nodes of a search were slow together more than once."""
    whole = set(search["nodes"])
    failed = [
        test
        for test in state["tests"]
        if _is_of(test, search["collective"], search["rail"])
        and test["verdict"] == FAIL
        and set(member_nodes(test)) == whole
    ]
    return len(failed) > 1


def named(search: Search) -> bool:
    """Return whether a search has a culprit."""
    return any(item["verdict"] == FAIL for kind in _BLAMED for item in search["answer"][kind])


def _can_widen(options: Options, state: State, nodes: list[str]) -> bool:
    """Return whether a floor for alltoall on the nodes is known, and alltoall has not passed yet."""
    fine = any(
        test["collective"] == _EVERY_CONNECTION and test["verdict"] == PASS and set(nodes) <= set(member_nodes(test))
        for test in state["tests"]
        if test["stage"] == "cluster"
    )
    return not fine and floor_for(options, nodes, _EVERY_CONNECTION) is not None


def _is_of(test: Test, collective: str, rail: str) -> bool:
    """Return whether a judged test measured a collective over a rail, or over all rails if `rail` is empty."""
    return (test["collective"], test["rail"]) == (collective, rail)


def _located(options: Options, state: State, cause: _Cause) -> dict[str, Any]:
    """Return the result of a search; its results are positions among all tests."""
    nodes, collective, rail = cause
    switch_of = {node: switch for switch, members in options["topology"].items() for node in members}
    topology: dict[str, list[str]] = {}
    for node in nodes if switch_of else []:
        topology.setdefault(switch_of.get(node, ""), []).append(node)
    places = [place for place, test in enumerate(state["tests"]) if _is_of(test, collective, rail)]
    results = [search_result(state["tests"][place]) for place in places]
    for result in results:
        result["scope"] = scope_for(options, result["nodes"], collective)
    answer = locate(nodes, results, topology, options["search_drop"] / 100, options["search_repeats"])
    for kind in (*_BLAMED, "fitting"):
        for item in answer[kind]:
            item["results"] = [places[place] for place in item["results"]]
    return answer


def calls_for_search(test: Test) -> bool:
    """Return whether the failure of a test of all nodes requires a search for the culprits.

    A straggler or a known cause needs no search: the bandwidth suffices, so no slow node would be found.
    """
    named = test["reason"].startswith((KNOWN_CAUSE, STRAGGLER))
    return (test["verdict"] == FAIL and not named) or search_result(test)["outcome"] in {"crashed", "hung"}


def member_nodes(test: Test) -> list[str]:
    """Return the nodes that took part in a judged test."""
    return list(dict.fromkeys(test["nodes"] + test["partners"]))


def search_result(test: Test) -> dict[str, Any]:
    """Return a judged test in the format of the search: nodes, busbw, floor and repeats (GB/s), and outcome.

    Tests without evidence about the nodes, such as a job that did not start, are inconclusive. Tests without a floor
    or with unsteady repeats can still be compared with other tests.
    """
    found = {run["outcome"] for run in test["runs"]}
    job = test["job"]
    started = bool(job["job_id"]) and job["state"] not in {"", "PENDING"} and "did not start" not in job["problem"]
    judged_by_peers = test["reason"].startswith((NO_FLOOR, "not steady"))
    if test["verdict"] == FAIL and "wrong-results" in found:
        outcome = "wrong"
    elif test["verdict"] != INCONCLUSIVE or judged_by_peers:
        outcome = "ok"
    elif job["problem"].startswith((CUT, TOO_LONG)):
        outcome = "inconclusive"
    elif started and ("did not finish" in job["problem"] or "hung" in found):
        outcome = "hung"
    elif started and (found & _BROKEN or job["problem"] or job["state"] not in {"COMPLETED", "RUNNING"}):
        outcome = "crashed"
    else:
        outcome = "inconclusive"
    # A failed test counts for all its requested nodes, even if some were left out.
    nodes = member_nodes(test) if outcome == "ok" else list(dict.fromkeys(member_nodes(test) + list(test["left_out"])))
    measured = outcome == "ok"
    repeats = [repeat for run in test["runs"] for repeat in repeats_at(run, test["at_size"])] if measured else []
    return {
        "nodes": nodes,
        "busbw": test["measured_busbw"] if measured else None,
        "floor": test["floor"] if measured and test["floor"] else None,
        "outcome": outcome,
        "repeats": [busbw for busbw, _rounding in repeats],
        "rounding": max((rounding for _busbw, rounding in repeats), default=0.0),
    }


def repeats_at(run: dict[str, Any], size: int | None) -> Iterator[tuple[float, float]]:
    """Yield the out-of-place busbw in GB/s of each row of a size, and its rounding error as a fraction.

    Args:
        run: a parsed run without contradictions.
        size: in bytes.
    """
    times = [
        row["out_of_place"].get("time_us")
        for row in run["rows"]
        if row["size"] > 0 and row["out_of_place"] is not None and row["out_of_place"]["busbw"] is not None
    ]
    factor = bus_factor(run.get("program"), run.get("ranks") or 0)
    for (at, busbw), time in zip(out_of_place(run), times):
        if at == size:
            yield _finest(at, busbw, time, factor)


def _finest(size: int, busbw: float, time: float | None, factor: float | None) -> tuple[float, float]:
    printed = min(1.0, _HALF_UNIT_GBS / busbw) if busbw > 0 else 1.0
    if printed <= _SHARE_OF_TIME or not factor or not time or not _FEWEST_US <= time < _LONGEST_US:
        return busbw, printed
    return size / time / 1e3 * factor, _SHARE_OF_TIME
