# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose the next tests of a validation, given all results so far.

A node that does not pass alone is excluded from later stages. If the test of all nodes is slow, wrong, crashes or
hangs, the culprit search requests tests until the faulty nodes are known. If rails are configured, all nodes are then
tested over each rail separately. stage_registry.STAGES contains the stages.

Peers are tests of one stage with the same collective, hardware, floor, number of nodes and ranks, and largest message
size; tests of single rails are compared across all rails. A test is a straggler if it is below the median of its peers
by more than ``straggler_limit`` percent plus their noise (see median_and_tolerance), and gets a finding if it exceeds
only one of the two. A straggler is a FAIL even above its floor, because a single slow node among faster ones is faulty.

Only passed tests with enough peers are compared. Tests of the culprit search get only findings, because the search
compares and repeats them itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....module_utils.slurm.nodes_and_jobs import PREEMPTED, is_taken
from ..common.hostlist import fold_hosts
from . import stage_registry
from .bandwidth_curve import behind_peers, curve_of, median_and_tolerance
from .check_options import typed
from .nccl_judge import FAIL, INCONCLUSIVE, PASS, STRAGGLER
from .node_checks import COLLECTIVE, kind_of
from .partition_choice import queue_arguments
from .stage_base import Counts, Next
from .validation_types import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .stage_base import Stage
    from .validation_types import Entry, Options, Result, State, Step, Test

# With fewer values the median absolute deviation is not meaningful.
FEWEST = 5
_PERCENT = 100
_BEHIND = "behind its peers: "


def with_peers(options: Options, tests: Sequence[Test]) -> list[Test]:
    """Return judged tests with the results of comparing them with their peers.

    Args:
        options: options of the validation; with a straggler_limit of 0 the tests are returned unchanged.
        tests: all tests so far. Findings of an earlier call are replaced, but a straggler remains a FAIL.
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
            _compare(options, found, places)
    return found


def _compares(test: Test) -> bool:
    measured = test["measured_busbw"] is not None and test["verdict"] != INCONCLUSIVE
    return measured and kind_of(test) == COLLECTIVE


def _kind(test: Test) -> tuple[Any, ...]:
    nodes = len(set(test["nodes"] + test["partners"]))
    rail = "" if test["stage"] == "rail" else test["rail"]
    what = (test["collective"], rail, test["hardware"], test["floor"])
    return (test["stage"], *what, nodes, test["ranks"], test["at_size"])


def _compare(options: Options, tests: list[Test], places: list[int]) -> None:
    """Replace the tests at the given positions with copies that contain the result of comparing them."""
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
            problem = f"{STRAGGLER}: {_words(figure, middle, len(places))} (allowed {_PERCENT * less / middle:.1f} %)"
            test["verdict"], test["reason"] = FAIL, f"{problem}; {test['reason']}"
        elif figure < middle - odd and not test["reason"].startswith(STRAGGLER):
            test["findings"].append(f"{_BEHIND}{_words(figure, middle, len(places))}")
        tests[place] = test


def _words(figure: float, middle: float, count: int) -> str:
    share = _PERCENT * (middle - figure) / middle
    return f"{figure:.4g} GB/s is {share:.1f} % below the median of {count} similar tests, {middle:.4g} GB/s"


def _decides(test: Test) -> bool:
    stage = stage_registry.stage_of(test)
    return stage is not None and stage.counts is not Counts.WHILE_SEARCHING


_LEAST_S = 5


def next_step(options: Mapping[str, Any], state: State | None = None, now: float | None = None) -> Step:
    """Return the tests to run next, or no tests if the validation is finished.

    The function has no state: equal input gives equal output.

    Args:
        options: as for check_options.typed.
        state: the last result of with_results; None before the first tests.
        now: seconds since 1970; None ignores the time limits.

    Raises:
        ValueError: the options are invalid.
    """
    checked = typed(options)
    state = state or FIRST
    found, skipped = (Next(), {}) if state["problem"] else _chosen(checked, state)
    for test in found.tests:
        # If an option is repeated, sbatch uses the last one, so the site's arguments override these.
        test["job"]["arguments"] = [*queue_arguments(checked, test["job"]["nodes"]), *test["job"]["arguments"]]
    limits = [test["time_limit"] for test in found.tests if "time_limit" in test]
    wait = checked["wait"] if found.wait is None else min(checked["wait"], found.wait)
    step: Step = {
        "stage": found.label or (found.tests[0]["stage"] if found.tests else ""),
        "search": found.search,
        "tests": found.tests,
        "stopped": "",
        "skipped": skipped,
        "wait": wait,
        "time_limit": max(limits, default=checked["test_time_limit"]),
    }
    if step["tests"] and now is not None:
        _bound(checked, state, step, now)
    return step


def _chosen(options: Options, state: State) -> tuple[Next, dict[str, str]]:
    """Return the next tests of the first unfinished stage, and the skipped stages before it with the reason."""
    skipped = {}
    for stage, nodes in each_stage(options, state):
        found = stage.next_tests(options, state, nodes) if stage.requested(options) else Next()
        if found.skipped:
            skipped[stage.name] = found.skipped
        if found.tests:
            return found, skipped
    return Next(), skipped


def each_stage(options: Options, state: State) -> Iterator[tuple[Stage[Any], list[str]]]:
    """Yield the stages in order, each with the nodes that no earlier stage has excluded."""
    nodes = options["nodes"]
    for stage in stage_registry.STAGES:
        yield stage, nodes
        out = stage.held_back(options, state, nodes)
        nodes = [node for node in nodes if node not in out]


def _bound(options: Options, state: State, step: Step, now: float) -> None:
    """Apply the time and round limits of the validation to a step, or stop the validation."""
    total, rounds = options["time_limit"], options["locate_rounds"]
    left = int(options["began"] + total - now)
    if total and left < _LEAST_S:
        step["stopped"] = f"the time limit of {total} s for all tests was reached"
    elif step["search"] and state["search_rounds"] >= rounds:
        step["stopped"] = f"the limit of {rounds} round(s) of the culprit search was reached"
    if step["stopped"]:
        step["tests"] = []


def with_results(
    options: Mapping[str, Any],
    state: State | None,
    step: Step,
    result: Result | Mapping[str, Any],
    texts: list[str | None],
) -> State:
    """Return the state after a step.

    Args:
        options: as for next_step.
        state: the state before it; None before the first.
        step: the result of next_step.
        result: the result of checked_answer, or a failed or unreachable result of the slurm_tests module.
        texts: the output of each test in order, None if missing.
    """
    checked = typed(options)
    state = state or FIRST
    entries: list[Entry] = result.get("tests") or []
    if len(entries) != len(step["tests"]):
        why = str(result.get("msg") or "the controller did not answer").strip()[:500]
        return {**state, "problem": f"the tests could not be run: {why}"}
    fresh: list[Test] = []
    for planned, entry, text in zip(step["tests"], entries, texts):
        stage = stage_registry.stage_of(planned)
        fresh += stage.judge(checked, planned, entry, text) if stage else []
    return {
        "tests": with_peers(checked, state["tests"] + fresh),
        "left_out": state["left_out"] | {node: why for test in fresh for node, why in test["left_out"].items()},
        "busy": state["busy"] | {node: jobs for entry in entries for node, jobs in entry.get("busy", {}).items()},
        "held": state["held"] | {node: why for entry in entries for node, why in entry.get("held", {}).items()},
        # The validation drains these nodes again after a test, so only the first answer names the original user.
        "held_by": {node: who for entry in entries for node, who in entry.get("held_by", {}).items()}
        | state["held_by"],
        "not_started": state["not_started"] + [entry["name"] for entry in entries if _kept_waiting(entry)],
        "node_reasons": result.get("node_reasons") or [],
        "search_rounds": state["search_rounds"] + step["search"],
        "problem": "",
    }


def _kept_waiting(entry: Entry) -> bool:
    """Return whether a test did not start, or was preempted, because its nodes were busy or taken out of service."""
    if not entry["problem"] or entry["state"] not in {"", "PENDING", PREEMPTED}:
        return False
    away = entry["left_out"] and not entry["job_id"] and all(map(is_taken, entry["left_out"].values()))
    return bool(entry.get("busy") or away)


def search_done(options: Mapping[str, Any], state: State) -> bool:
    """Return whether no culprit search needs more tests."""
    checked = typed(options)
    return not any(stage.searching(checked, state, nodes) for stage, nodes in each_stage(checked, state))


def budget(options: Mapping[str, Any]) -> str:
    """Return the planned tests and their maximum duration as one line."""
    checked = typed(options)
    budgets = [words for stage in stage_registry.STAGES if stage.requested(checked) for words in stage.budget(checked)]
    total = checked["time_limit"]
    end = f"; at most {total} s in total" if total else ""
    return f"validation of {fold_hosts(checked['nodes'])}: {'; '.join(budgets)}{end}"
