# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Drives a validation: which tests come next, given all that came back so far.

Each stage gates the next: a node that does not pass alone takes part in nothing else, and when all together are slow,
wrong, crash or hang, the culprit search asks for tests until it knows who is to blame. Where rails are named, all nodes
together are tested once more over each of them alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from .judge import PASS
from .node_checks import check_problems, collectives, failed_nodes, judged_test, next_checks
from .searches import PAIR, made_searches, member_nodes, search_result
from .storage.stage import STORAGE, blamed_for_storage, judged_storage, planned_storage, storage_problems
from .tests import candidates, fold, input_problems, node_list, planned_test
from .training.stage import TRAINING, judged_training, planned_training, training_problems

__all__ = ["FIRST", "budget", "next_step", "search_done", "searches", "with_results"]

# What is known before the first test.
FIRST: dict[str, Any] = {
    "tests": [],
    "files": [],
    "left_out": {},
    "busy": {},
    "not_started": [],
    "node_reasons": [],
    "search_rounds": 0,
    "problem": "",
}

_LEAST_S = 5
# The nodes of a search have just run a test: one that is gone will not come back for the next.
_SEARCH_WAIT_S = 30


def next_step(options: dict[str, Any], state: dict[str, Any] | None = None, now: float | None = None) -> dict[str, Any]:
    """Return the tests to run next; none when the validation is over.

    The same input gives the same answer; nothing is kept between calls.

    Args:
        options: as for validation.planned_test, and stages, began (seconds since 1970), time_limit (s, 0 for none),
            test_time_limit and wait (s, of one test), locate_rounds.
        state: what with_results returned last; None before the first tests.
        now: seconds since 1970; None asks what would come next if there were no bounds.

    Returns:
        stage (storage, node, pair, cluster, rail, training or search; empty when it is over),
            search (whether the search asks),
        tests (as planned_test gives them), wait and time_limit (s) for the module slurm_tests, stopped (why the
        validation ends before its time, empty otherwise) and skipped (stages that cannot run, each with the reason).

    Raises:
        ValueError: the options are not right.
    """
    problems = input_problems(options) + check_problems(options) + storage_problems(options)
    problems += training_problems(options)
    if problems:
        raise ValueError("; ".join(problems))
    state = state or FIRST
    step: dict[str, Any] = {"stage": "", "search": False, "tests": [], "stopped": "", "skipped": {}}
    step |= {"wait": int(options["wait"]), "time_limit": int(options["test_time_limit"])}
    if not state["problem"]:
        _choose(options, state, step)
    if step["tests"] and now is not None:
        _bound(options, state, step, now)
    return step


def _choose(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any]) -> None:
    """Enter the tests of the first stage that is not over."""
    if STORAGE in options["stages"] and not any(test["stage"] == STORAGE for test in state["tests"]):
        step["stage"] = STORAGE
        step["tests"] = [planned_storage(options, node_list(options["nodes"]))]
        return
    if "node" in options["stages"]:
        _each_alone(options, state, step)
    nodes = _gated(options, state)
    if not step["tests"] and "pair" in options["stages"] and len(nodes) < PAIR:
        step["skipped"]["pair"] = f"{len(nodes)} node(s) passed what came before"
    if not step["tests"] and {"pair", "cluster"}.intersection(options["stages"]):
        _search(options, state, step)
    if not step["tests"] and "cluster" in options["stages"]:
        _cluster(options, state, step, nodes)
    if not step["tests"] and options["rails"]:
        _next_rail(options, state, step)
    if not step["tests"] and TRAINING in options["stages"]:
        _training(options, state, step, nodes)


def _training(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any], nodes: list[str]) -> None:
    """Enter the training of all nodes that nothing has been found against, unless it has been."""
    if any(test["stage"] == TRAINING for test in state["tests"]):
        return
    nodes = _not_found_out(options, state, nodes)
    if nodes:
        step["stage"] = TRAINING
        step["tests"] = [planned_training(options, nodes)]
    else:
        step["skipped"][TRAINING] = "no node passed what came before"


def _next_rail(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any]) -> None:
    """Enter the test of all together over the next rail, of those nodes that nothing has been found against."""
    whole = next((test for test in state["tests"] if test["stage"] == "cluster"), None)
    if whole is None or search_result(whole)["outcome"] != "ok":
        return
    out = {item["node"] for search in searches(options, state) for item in search["answer"]["nodes"]}
    nodes = [node for node in member_nodes(whole) if node not in out]
    done = {test["rail"] for test in state["tests"] if test["stage"] == "rail"}
    rail = next((rail for rail in options["rails"] if rail not in done), None)
    if rail is not None and len(nodes) >= PAIR:
        first = options["collectives"][:1]
        step["tests"] = [planned_test(options, f"rail-{rail}", "rail", nodes, collectives=first, rail=rail)]
        step["stage"] = "rail"


def _each_alone(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any]) -> None:
    """Enter the next tests of each node alone: the all-reduce, then one kind of check after the other."""
    if not any(test["stage"] == "node" for test in state["tests"]):
        step["tests"] = _alone(options)
    if not step["tests"]:
        here = [node for node in node_list(options["nodes"]) if node not in state["left_out"]]
        step["tests"] = next_checks(options, state["tests"], here)
        step["time_limit"] = max([test["time_limit"] for test in step["tests"]], default=step["time_limit"])
    step["stage"] = "node" if step["tests"] else ""


def _alone(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tests of each node alone; one rank sends nothing, so a node with one GPU has none."""
    tests = [planned_test(options, f"node-{node}", "node", [node]) for node in node_list(options["nodes"])]
    return [test for test in tests if test["ranks_per_node"] >= PAIR]


def _gated(options: dict[str, Any], state: dict[str, Any]) -> list[str]:
    """Return the nodes that nothing has come up against when they were alone."""
    asked = (
        {node for test in _alone(options) for node in test["job"]["nodes"]} if "node" in options["stages"] else set()
    )
    alone: dict[str, list[str]] = {}
    for test in collectives(state["tests"]):
        for node in test["nodes"] if test["stage"] == "node" else []:
            alone.setdefault(node, []).append(test["verdict"])
    passed = {node for node, verdicts in alone.items() if set(verdicts) == {PASS}}
    bad = failed_nodes([test for test in state["tests"] if test["stage"] not in {STORAGE, TRAINING}])
    bad |= blamed_for_storage(state["tests"]).keys()
    return [node for node in node_list(options["nodes"]) if (node in passed or node not in asked) and node not in bad]


def _not_found_out(options: dict[str, Any], state: dict[str, Any], nodes: list[str]) -> list[str]:
    """Return the nodes less those that a culprit search names, or cannot clear."""
    answers = [search["answer"] for search in searches(options, state)]
    out = {item["node"] for answer in answers for item in answer["nodes"]}
    out |= {item["nodes"][0] for answer in answers for item in answer["unresolved"] if len(item["nodes"]) == 1}
    return [node for node in nodes if node not in out]


def _cluster(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any], nodes: list[str]) -> None:
    """Enter the test of all together, unless it has been."""
    if any(test["stage"] == "cluster" for test in state["tests"]):
        return
    nodes = _not_found_out(options, state, nodes)
    partners = min(int(options["partners"]), len(candidates(options, nodes)))
    lonely = len(nodes) + partners < PAIR and "node" in options["stages"]
    if nodes and not lonely:
        step["stage"] = "cluster"
        step["tests"] = [planned_test(options, "cluster", "cluster", nodes, partners)]
    elif not nodes or len(node_list(options["nodes"])) > 1:
        step["skipped"]["cluster"] = f"{len(nodes)} node(s) passed what came before"


def _search(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any]) -> None:
    """Enter the next tests of the culprit search, if there are any."""
    asking = next((search for search in searches(options, state) if not search["answer"]["done"]), None)
    if asking is None:
        return
    collective, rail = asking["collective"], asking["rail"]
    suffix = "" if collective == options["collectives"][0] else f"-{collective}"
    suffix += f"-{rail}" if rail else ""
    used = Counter(test["name"].split("_again", 1)[0] for test in state["tests"])
    number = state["search_rounds"] + 1
    for place, members in enumerate(asking["answer"]["tests"], start=1):
        kind = {1: "alone", PAIR: "pair"}.get(len(members))
        name = ("-".join([kind, *members]) if kind else f"search-{number}-{place}") + suffix
        again = f"_again{used[name]}" if used[name] else ""
        stage = "pair" if kind == "pair" else "search"
        step["tests"].append(planned_test(options, name + again, stage, members, collectives=[collective], rail=rail))
    step["stage"] = "pair" if any(test["stage"] == "pair" for test in step["tests"]) else "search"
    step["search"] = True
    step["wait"] = min(step["wait"], _SEARCH_WAIT_S)


def _bound(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any], now: float) -> None:
    """Keep a step within the bounds of the validation, or end it."""
    total, rounds = int(options["time_limit"]), int(options["locate_rounds"])
    left = int(float(options["began"]) + total - now)
    if total and left < _LEAST_S:
        step["stopped"] = f"the time of {total} s for all tests is over"
    elif step["search"] and state["search_rounds"] >= rounds:
        step["stopped"] = f"{rounds} round(s) of the culprit search are over"
    elif total:
        step["time_limit"] = min(step["time_limit"], left)
        step["wait"] = min(step["wait"], left)
    if step["stopped"]:
        step["tests"] = []


def with_results(
    options: dict[str, Any],
    state: dict[str, Any] | None,
    step: dict[str, Any],
    result: dict[str, Any],
    texts: list[str | None],
) -> dict[str, Any]:
    """Return what is known after a step.

    Args:
        options: as for next_step.
        state: what was known before it; None before the first.
        step: what next_step returned.
        result: what the module slurm_tests returned; a failed or unreachable result when it did not run.
        texts: the output of each test in order, None where there is none.
    """
    state = state or FIRST
    entries = result.get("tests") or []
    if len(entries) != len(step["tests"]):
        why = str(result.get("msg") or "the controller gave no answer").strip()[:500]
        return {**state, "problem": f"the tests could not be run: {why}"}
    fresh = [test for item in zip(step["tests"], entries, texts, strict=True) for test in _judged(options, *item)]
    files = [
        {"name": f"{test['name']}.out", "content": text + "\n"}
        for test, text in zip(step["tests"], texts, strict=True)
        if text
    ]
    return {
        "tests": state["tests"] + fresh,
        "files": state["files"] + files,
        "left_out": state["left_out"] | {node: why for test in fresh for node, why in test["left_out"].items()},
        "busy": state["busy"] | {node: jobs for entry in entries for node, jobs in entry.get("busy", {}).items()},
        "not_started": state["not_started"] + [entry["name"] for entry in entries if _kept_waiting(entry)],
        "node_reasons": result.get("node_reasons") or [],
        "search_rounds": state["search_rounds"] + bool(step["search"]),
        "problem": "",
    }


def _kept_waiting(entry: dict[str, Any]) -> bool:
    """Return whether a test did not begin because the jobs of others had its nodes."""
    return bool(entry.get("busy")) and bool(entry["problem"]) and entry["state"] in {"", "PENDING"}


def _judged(
    options: dict[str, Any], planned: dict[str, Any], entry: dict[str, Any], text: str | None
) -> list[dict[str, Any]]:
    """Return the report's entries of a test of whatever kind."""
    if planned["stage"] == STORAGE:
        return [judged_storage(options, planned, entry, text)]
    if planned["stage"] == TRAINING:
        return [judged_training(options, planned, entry, text)]
    return judged_test(options, planned, entry, text)


def searches(options: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the culprit searches that this validation made so far, as searches.made_searches gives them."""
    return made_searches(options, state, _gated(options, state))


def search_done(options: dict[str, Any], state: dict[str, Any]) -> bool:
    """Return whether no culprit search wants more tests."""
    return all(search["answer"]["done"] for search in searches(options, state))


def budget(options: dict[str, Any]) -> str:
    """Return in one line what is going to run and how long it may take."""
    nodes = node_list(options["nodes"])
    each = f"at most {options['test_time_limit']} s"
    rounds = f"{options['locate_rounds']} rounds of at most {options['test_time_limit']} s each"
    words = {
        STORAGE: f"all together at {options['storage']['path']}, {each}" if STORAGE in options["stages"] else "",
        "node": f"{len(nodes)} test(s) of one node at once, {each}",
        "pair": f"the culprit search, at most {rounds}",
        "cluster": f"all together, {each}",
        TRAINING: f"one rank, one node, then more of them at once, {each}",
    }
    for kind in dict.fromkeys(options.get("node_checks") or []):
        words["node"] += f", then {kind}, at most {options['check_jobs'][kind]['time_limit']} s"
    parts = [f"{stage}: {words[stage]}" for stage in words if stage in options["stages"]]
    if "cluster" in options["stages"] and "pair" not in options["stages"]:
        parts.append(f"only if that fails, the culprit search, at most {rounds}")
    if options["rails"]:
        parts.append(f"then all together over each of {len(options['rails'])} rail(s), {each}")
    total = int(options["time_limit"])
    end = f"; never more than {total} s in all" if total else ""
    return f"validation of {fold(nodes)}: {'; '.join(parts)}{end}"
