# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Drives a validation: which tests come next, given all that came back so far.

Each stage gates the next: a node that does not pass alone takes part in nothing else, and when all together are slow,
wrong, crash or hang, the culprit search asks for tests until it knows who is to blame. It searches with the collective
that failed. Not all connections carry a reduction; so when that names nobody, it searches once more with alltoall,
which uses every connection among its nodes. Where rails are named, all nodes together are tested once more over each of
them alone, and what is slow then is searched for on that rail.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from .judge import FAIL, INCONCLUSIVE, NO_FLOOR, PASS
from .locate import locate
from .node_checks import check_problems, collectives, failed_nodes, judged_test, next_checks
from .storage_stage import STORAGE, blamed_for_storage, judged_storage, planned_storage, storage_problems
from .validation import candidates, floor_for, fold, input_problems, node_list, planned_test

__all__ = [
    "FIRST",
    "budget",
    "member_nodes",
    "named",
    "next_step",
    "search_done",
    "search_result",
    "searches",
    "with_results",
]

# What is known before the first test.
FIRST: dict[str, Any] = {
    "tests": [],
    "files": [],
    "left_out": {},
    "node_reasons": [],
    "search_rounds": 0,
    "problem": "",
}

_PAIR = 2
_LEAST_S = 5
# The nodes of a search have just run a test: one that is gone will not come back for the next.
_SEARCH_WAIT_S = 30
_BROKEN = frozenset({"crashed", "truncated", "error-only"})
_EVERY_CONNECTION = "alltoall"
_BLAMED = ("nodes", "links", "boundaries")

# Nodes, collective and rail of a search.
_Cause = tuple[list[str], str, str]


def next_step(options: dict[str, Any], state: dict[str, Any] | None = None, now: float | None = None) -> dict[str, Any]:
    """Return the tests to run next; none when the validation is over.

    The same input gives the same answer; nothing is kept between calls.

    Args:
        options: as for validation.planned_test, and stages, began (seconds since 1970), total_limit (s, 0 for none),
            time_limit and wait (s, of one test), locate_rounds.
        state: what with_results returned last; None before the first tests.
        now: seconds since 1970; None asks what would come next if there were no bounds.

    Returns:
        stage (storage, node, pair, cluster, rail or search; empty when it is over), search (whether the search asks),
        tests (as planned_test gives them), wait and time_limit (s) for the module slurm_tests, stopped (why the
        validation ends before its time, empty otherwise) and skipped (stages that cannot run, each with the reason).

    Raises:
        ValueError: the options are not right.
    """
    problems = input_problems(options) + check_problems(options) + storage_problems(options)
    if problems:
        raise ValueError("; ".join(problems))
    state = state or FIRST
    step: dict[str, Any] = {"stage": "", "search": False, "tests": [], "stopped": "", "skipped": {}}
    step |= {"wait": int(options["wait"]), "time_limit": int(options["time_limit"])}
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
    if not step["tests"] and "pair" in options["stages"] and len(nodes) < _PAIR:
        step["skipped"]["pair"] = f"{len(nodes)} node(s) passed what came before"
    if not step["tests"] and {"pair", "cluster"}.intersection(options["stages"]):
        _search(options, state, step)
    if not step["tests"] and "cluster" in options["stages"]:
        _cluster(options, state, step, nodes)
    if not step["tests"] and options["rails"]:
        _next_rail(options, state, step)


def _next_rail(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any]) -> None:
    """Enter the test of all together over the next rail, of those nodes that nothing has been found against."""
    whole = next((test for test in state["tests"] if test["stage"] == "cluster"), None)
    if whole is None or search_result(whole)["outcome"] != "ok":
        return
    out = {item["node"] for search in searches(options, state) for item in search["answer"]["nodes"]}
    nodes = [node for node in member_nodes(whole) if node not in out]
    done = {test["rail"] for test in state["tests"] if test["stage"] == "rail"}
    rail = next((rail for rail in options["rails"] if rail not in done), None)
    if rail is not None and len(nodes) >= _PAIR:
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
    return [test for test in tests if test["ranks_per_node"] >= _PAIR]


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
    bad = failed_nodes([test for test in state["tests"] if test["stage"] != STORAGE])
    bad |= blamed_for_storage(state["tests"]).keys()
    return [node for node in node_list(options["nodes"]) if (node in passed or node not in asked) and node not in bad]


def _cluster(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any], nodes: list[str]) -> None:
    """Enter the test of all together, unless it has been."""
    if any(test["stage"] == "cluster" for test in state["tests"]):
        return
    answers = [search["answer"] for search in searches(options, state)]
    out = {item["node"] for answer in answers for item in answer["nodes"]}
    out |= {item["nodes"][0] for answer in answers for item in answer["unresolved"] if len(item["nodes"]) == 1}
    nodes = [node for node in nodes if node not in out]
    partners = min(int(options["partners"]), len(candidates(options, nodes)))
    lonely = len(nodes) + partners < _PAIR and "node" in options["stages"]
    if nodes and not lonely:
        step["stage"] = "cluster"
        step["tests"] = [planned_test(options, "cluster", "cluster", nodes, partners)]
    elif not nodes or len(node_list(options["nodes"])) > 1:
        step["skipped"]["cluster"] = f"{len(nodes)} node(s) passed what came before"


def _calls_for_search(test: dict[str, Any]) -> bool:
    """Return whether a test of all together says that something is wrong with some of them."""
    return test["verdict"] == FAIL or search_result(test)["outcome"] in {"crashed", "hung"}


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
        kind = {1: "alone", _PAIR: "pair"}.get(len(members))
        name = ("-".join([kind, *members]) if kind else f"search-{number}-{place}") + suffix
        again = f"_again{used[name]}" if used[name] else ""
        stage = "pair" if kind == "pair" else "search"
        step["tests"].append(planned_test(options, name + again, stage, members, collectives=[collective], rail=rail))
    step["stage"] = "pair" if any(test["stage"] == "pair" for test in step["tests"]) else "search"
    step["search"] = True
    step["wait"] = min(step["wait"], _SEARCH_WAIT_S)


def _bound(options: dict[str, Any], state: dict[str, Any], step: dict[str, Any], now: float) -> None:
    """Keep a step within the bounds of the validation, or end it."""
    total, rounds = int(options["total_limit"]), int(options["locate_rounds"])
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


def _is_of(test: dict[str, Any], collective: str, rail: str) -> bool:
    """Return whether a judged test measured a collective over a rail; over all of them when it is empty."""
    return (test["collective"], test["rail"]) == (collective, rail)


def _located(options: dict[str, Any], state: dict[str, Any], cause: _Cause) -> dict[str, Any]:
    """Return what a search says; its results are positions among all tests."""
    nodes, collective, rail = cause
    switch_of = {node: switch for switch, members in options["topology"].items() for node in node_list(members)}
    topology: dict[str, list[str]] = {}
    for node in nodes if switch_of else []:
        topology.setdefault(switch_of.get(node, ""), []).append(node)
    places = [place for place, test in enumerate(state["tests"]) if _is_of(test, collective, rail)]
    answer = locate(nodes, [search_result(state["tests"][place]) for place in places], topology)
    for kind in _BLAMED:
        for item in answer[kind]:
            item["results"] = [places[place] for place in item["results"]]
    return answer


def searches(options: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the culprit searches that this validation made so far, in order; only the last may not be done.

    Returns:
        collective, rail (empty for all), nodes (among which), explained (a later search names who is to blame for what
        it left open), and answer (as locate gives it).
    """
    found: list[dict[str, Any]] = []
    asked = str(options["search_collective"])
    for cause, slow in _causes(options, state, asked):
        _add_search(options, state, found, cause)
        unnamed = found and not any(map(named, found))
        if slow and asked == "auto" and unnamed and _can_widen(options, state, cause[0]):
            _widen(options, state, found, cause[0])
        if any(not search["answer"]["done"] for search in found):
            break
    for place, search in enumerate(found):
        search["explained"] = not named(search) and any(named(later) for later in found[place + 1 :])
    return found


def _causes(options: dict[str, Any], state: dict[str, Any], asked: str) -> list[tuple[_Cause, bool]]:
    """Return what calls for a search: the nodes, the collective and the rail, and whether they were merely slow."""
    first = options["collectives"][0] if asked == "auto" else asked
    causes = [((_gated(options, state), first, ""), False)] if "pair" in options["stages"] else []
    for test in state["tests"]:
        if test["stage"] in {"cluster", "rail"} and _calls_for_search(test):
            collective = test["collective"] if asked == "auto" or test["rail"] else asked
            slow = test["verdict"] == FAIL and search_result(test)["outcome"] == "ok" and not test["rail"]
            causes.append(((member_nodes(test), collective, test["rail"]), slow))
    return causes


def _add_search(options: dict[str, Any], state: dict[str, Any], found: list[dict[str, Any]], cause: _Cause) -> None:
    """Add a search for a cause among those nodes that no earlier search has named."""
    nodes, collective, rail = cause
    out = {item["node"] for search in found for item in search["answer"]["nodes"] if search["rail"] in {"", rail}}
    left = [node for node in nodes if node not in out]
    known = any((search["nodes"], search["collective"], search["rail"]) == (left, collective, rail) for search in found)
    if len(left) >= _PAIR and not known:
        answer = _located(options, state, (left, collective, rail))
        found.append({"collective": collective, "rail": rail, "nodes": left, "explained": False, "answer": answer})


def _widen(options: dict[str, Any], state: dict[str, Any], found: list[dict[str, Any]], nodes: list[str]) -> None:
    """Search with alltoall when the last search names nobody, or all its parts were fine and its whole is slow again.

    What that does not explain either goes on where it was.
    """
    before, count = found[-1]["answer"], len(found)
    if not before["done"] and not _fails_again(state, found[-1]):
        return
    _add_search(options, state, found, (nodes, _EVERY_CONNECTION, ""))
    if len(found) > count and (named(found[-1]) or not found[-1]["answer"]["done"]):
        before.update(done=True, tests=[])


def _fails_again(state: dict[str, Any], search: dict[str, Any]) -> bool:
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


def named(search: dict[str, Any]) -> bool:
    """Return whether a search names somebody who is to blame."""
    return any(item["verdict"] == FAIL for kind in _BLAMED for item in search["answer"][kind])


def _can_widen(options: dict[str, Any], state: dict[str, Any], nodes: list[str]) -> bool:
    """Return whether alltoall among the nodes could be judged, and has not been fine already."""
    fine = any(
        test["collective"] == _EVERY_CONNECTION and test["verdict"] == PASS and set(nodes) <= set(member_nodes(test))
        for test in state["tests"]
        if test["stage"] == "cluster"
    )
    return not fine and floor_for(options, nodes, _EVERY_CONNECTION) is not None


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
        "node_reasons": result.get("node_reasons") or [],
        "search_rounds": state["search_rounds"] + bool(step["search"]),
        "problem": "",
    }


def _judged(
    options: dict[str, Any], planned: dict[str, Any], entry: dict[str, Any], text: str | None
) -> list[dict[str, Any]]:
    """Return the report's entries of a test of whatever kind."""
    if planned["stage"] == STORAGE:
        return [judged_storage(options, planned, entry, text)]
    return judged_test(options, planned, entry, text)


def search_done(options: dict[str, Any], state: dict[str, Any]) -> bool:
    """Return whether no culprit search wants more tests."""
    return all(search["answer"]["done"] for search in searches(options, state))


def member_nodes(test: dict[str, Any]) -> list[str]:
    """Return the nodes that took part in a judged test."""
    return list(dict.fromkeys(test["nodes"] + test["partners"]))


def search_result(test: dict[str, Any]) -> dict[str, Any]:
    """Return a judged test as the locator takes it: nodes, busbw and floor (GB/s) and outcome.

    What says nothing about the nodes, such as a job that never started or unknown hardware, is inconclusive. What only
    lacks a floor, or repeats that agree, can still be compared with other tests.
    """
    found = {run["outcome"] for run in test["runs"]}
    job = test["job"]
    started = bool(job["job_id"]) and job["state"] not in {"", "PENDING"} and "did not start" not in job["problem"]
    judged_by_peers = test["reason"].startswith((NO_FLOOR, "not steady"))
    if test["verdict"] == FAIL and "wrong-results" in found:
        outcome = "wrong"
    elif test["verdict"] != INCONCLUSIVE or judged_by_peers:
        outcome = "ok"
    elif started and ("did not end" in job["problem"] or "hung" in found):
        outcome = "hung"
    elif started and (found & _BROKEN or job["problem"] or job["state"] not in {"COMPLETED", "RUNNING"}):
        outcome = "crashed"
    else:
        outcome = "inconclusive"
    # A test that lacks a node is still the answer to the question that named it.
    nodes = member_nodes(test) if outcome == "ok" else list(dict.fromkeys(member_nodes(test) + list(test["left_out"])))
    measured = outcome == "ok"
    return {
        "nodes": nodes,
        "busbw": test["measured_busbw"] if measured else None,
        "floor": test["floor"] if measured and test["floor"] else None,
        "outcome": outcome,
    }


def budget(options: dict[str, Any]) -> str:
    """Return in one line what is going to run and how long it may take."""
    nodes = node_list(options["nodes"])
    each = f"at most {options['time_limit']} s"
    rounds = f"{options['locate_rounds']} rounds of at most {options['time_limit']} s each"
    words = {
        STORAGE: f"all together at {options['storage']['path']}, {each}" if STORAGE in options["stages"] else "",
        "node": f"{len(nodes)} test(s) of one node at once, {each}",
        "pair": f"the culprit search, at most {rounds}",
        "cluster": f"all together, {each}",
    }
    for kind in dict.fromkeys(options.get("node_checks") or []):
        words["node"] += f", then {kind}, at most {options['check_jobs'][kind]['time_limit']} s"
    parts = [f"{stage}: {words[stage]}" for stage in words if stage in options["stages"]]
    if "cluster" in options["stages"] and "pair" not in options["stages"]:
        parts.append(f"only if that fails, the culprit search, at most {rounds}")
    if options["rails"]:
        parts.append(f"then all together over each of {len(options['rails'])} rail(s), {each}")
    total = int(options["total_limit"])
    end = f"; never more than {total} s in all" if total else ""
    return f"validation of {fold(nodes)}: {'; '.join(parts)}{end}"
