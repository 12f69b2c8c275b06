# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose the next tests of a validation, given all results so far.

Each stage gates the next: a node that does not pass alone is excluded, and if all nodes together are slow, wrong, crash
or hang, the culprit search requests tests until the faulty nodes are known. If rails are configured, all nodes together
are tested again over each rail alone. The stages are the classes in registry.STAGES.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....module_utils.slurm.jobs import PREEMPTED, is_taken
from ..common.hostlist import fold_hosts
from . import registry
from .inputs import typed
from .model import FIRST
from .peers import with_peers
from .queues import queue_arguments
from .stage import Next

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .model import Entry, Options, Result, State, Step, Test
    from .stage import Stage

__all__ = ["FIRST", "budget", "each_stage", "next_step", "search_done", "with_results"]

_LEAST_S = 5


def next_step(options: Mapping[str, Any], state: State | None = None, now: float | None = None) -> Step:
    """Return the tests to run next; without tests when the validation is finished.

    The function is pure: equal input gives equal output.

    Args:
        options: as for inputs.typed.
        state: the last result of with_results; None before the first tests.
        now: seconds since 1970; None ignores the time limits.

    Raises:
        ValueError: the options are invalid.
    """
    checked = typed(options)
    state = state or FIRST
    found, skipped = (Next(), {}) if state["problem"] else _chosen(checked, state)
    for test in found.tests:
        # These precede the site's arguments, which override them because the last one counts.
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
    """Return the next tests of the first unfinished stage, and the earlier stages that cannot run."""
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
    for stage in registry.STAGES:
        yield stage, nodes
        out = stage.held_back(options, state, nodes)
        nodes = [node for node in nodes if node not in out]


def _bound(options: Options, state: State, step: Step, now: float) -> None:
    """Apply the limits of the validation to a step, or end it."""
    total, rounds = options["time_limit"], options["locate_rounds"]
    left = int(options["began"] + total - now)
    if total and left < _LEAST_S:
        step["stopped"] = f"the time of {total} s for all tests is over"
    elif step["search"] and state["search_rounds"] >= rounds:
        step["stopped"] = f"{rounds} round(s) of the culprit search are over"
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
        result: the result of checked_answer, or a failed or unreachable result of the module slurm_tests.
        texts: the output of each test in order, None if missing.
    """
    checked = typed(options)
    state = state or FIRST
    entries: list[Entry] = result.get("tests") or []
    if len(entries) != len(step["tests"]):
        why = str(result.get("msg") or "the controller gave no answer").strip()[:500]
        return {**state, "problem": f"the tests could not be run: {why}"}
    fresh: list[Test] = []
    for planned, entry, text in zip(step["tests"], entries, texts):
        stage = registry.stage_of(planned)
        fresh += stage.judge(checked, planned, entry, text) if stage else []
    return {
        "tests": with_peers(checked, state["tests"] + fresh),
        "left_out": state["left_out"] | {node: why for test in fresh for node, why in test["left_out"].items()},
        "busy": state["busy"] | {node: jobs for entry in entries for node, jobs in entry.get("busy", {}).items()},
        "held": state["held"] | {node: why for entry in entries for node, why in entry.get("held", {}).items()},
        # A restored drain was set by the validation itself, so the first answer about a node counts.
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
    """Return one line with the planned tests and their maximum duration."""
    checked = typed(options)
    budgets = [words for stage in registry.STAGES if stage.requested(checked) for words in stage.budget(checked)]
    total = checked["time_limit"]
    end = f"; never more than {total} s in all" if total else ""
    return f"validation of {fold_hosts(checked['nodes'])}: {'; '.join(budgets)}{end}"
