# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Create the report of a validation: its verdict, the culprits, and the nodes to drain.

The verdict depends on faulty nodes, links and switches and on the final state, not on each test:

- A culprit found by the search, or a node that failed alone, leads to FAIL.
- A failed test of all nodes leads to FAIL even without a culprit. If the same nodes passed another run of the test, the
  fault is intermittent and the verdict INCONCLUSIVE.
- A test of a finished culprit search does not count: because of noise, some of many pairs appear slow, and the search
  repeats failed tests before it blames a node. In an unfinished search, the last result of each set of nodes counts.
- Unresolved nodes, left-out nodes and tests that could not run lead to INCONCLUSIVE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ....module_utils.slurm.busbar_drain_reasons import is_new
from ....module_utils.slurm.nodes_and_jobs import is_taken
from ..common.hostlist import fold_hosts
from ..common.option_names_in_messages import option
from . import stage_registry
from .check_options import typed
from .nccl_judge import FAIL, INCONCLUSIVE, NO_FLOOR, PASS, worst
from .next_tests import each_stage, next_step, search_done
from .node_checks import COLLECTIVE, kind_of
from .resume_nodes import OWN_REASON, keeps_reason, node_changes, slurm_reason
from .stage_base import Counts
from .start_searches import member_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .validation_types import Blamed, Culprit, Drain, Options, Report, State, Test, Unresolved

SCHEMA = 1
_MOST_EVIDENCE = 6
_SETTINGS = frozenset(
    {
        *("stages", "collectives", "repeats", "min_bytes", "max_bytes", "step_factor", "iterations"),
        *("partners", "locate_rounds", "rails"),
    }
)
# A rail is a NIC, its cable and its switch port; a node with a bad rail is drained as well.
_DRAINED = frozenset({"node", "rail"})
_Item = TypeVar("_Item", "Culprit", "Unresolved")


def culprits(options: Mapping[str, Any], state: State) -> tuple[list[Culprit], list[Unresolved]]:
    """Return the faulty nodes and those without a conclusive verdict, in the order of the stages."""
    checked = typed(options)
    found: list[Culprit] = []
    unresolved: list[Unresolved] = []
    for stage, nodes in each_stage(checked, state):
        blamed, unclear = stage.blame(checked, state, nodes)
        found += blamed
        unresolved += unclear
    return _once(found), _once(unresolved)


def _suspected(checked: Options, state: State, blamed: Sequence[Culprit]) -> list[Unresolved]:
    """Return the suspected nodes that are not blamed."""
    guilty = {node for item in blamed for node in item["nodes"]}
    found = [item for stage, nodes in each_stage(checked, state) for item in stage.suspected(checked, state, nodes)]
    return _once([item for item in found if guilty.isdisjoint(item["nodes"])])


def _once(items: list[_Item]) -> list[_Item]:
    """Return the first item for each set of nodes."""
    return list(
        {(item.get("kind"), item.get("rail"), tuple(item["nodes"])): item for item in reversed(items)}.values()
    )[::-1]


def drain_plan(options: Options, blamed: Sequence[Culprit], state: State) -> Drain:
    """Return the nodes to drain with their drain reasons, or why no node is drained.

    Args:
        options: drain_failed, drain_limit (percent), pool (all compute nodes).
        blamed: the return value of `culprits`; only nodes are drained, including those with a bad rail.
        state: the final state. Nodes in node_reasons that busbar drained before count towards the limit. Already
            drained nodes get the new reason if busbar drained them, and otherwise keep theirs. New nodes stay out of
            service; `not_admitted` returns their reasons.

    Returns:
        nodes (a list of node and reason) and refused (string).
    """
    guilty = {item["nodes"][0]: item["reason"] for item in reversed(blamed) if item["kind"] in _DRAINED}
    held = state["held"]
    guilty = {
        node: why for node, why in guilty.items() if not (keeps_reason(state, node) or is_new(held.get(node, "")))
    }
    again = {node: why for node, why in guilty.items() if node in held}
    answer: Drain = {"nodes": _with_reasons(again), "refused": ""}
    if not options["drain_failed"] or not guilty:
        return answer
    lines = [line.partition(" ") for line in state["node_reasons"]]
    before = {node for node, _space, reason in lines if _was_in_service(reason)} | again.keys()
    out, whole, limit = len(before | guilty.keys()), len(options["pool"]), options["drain_limit"]
    if out * 100 > limit * whole:
        answer["refused"] = (
            f"{fold_hosts(sorted(guilty.keys() - again.keys()))} not drained: {out} of {whole} nodes would be drained "
            f"({option('drain_limit')}: {limit} %)"
        )
    else:
        answer["nodes"] = _with_reasons(guilty)
    return answer


def _was_in_service(reason: str) -> bool:
    """Return whether a drain reason from ``sinfo -R`` shows that busbar drained an admitted node."""
    return reason.startswith(OWN_REASON) and not is_new(reason.rpartition(" (")[0])


def _with_reasons(guilty: Mapping[str, str]) -> list[Blamed]:
    return [{"node": node, "reason": slurm_reason(why)} for node, why in sorted(guilty.items())]


def report(
    options: Mapping[str, Any], state: State, stopped: str = "", drained: list[dict[str, str]] | None = None
) -> Report:
    """Return the report of a validation.

    Args:
        options: as for next_step.
        state: the result of with_results.
        stopped: why the validation stopped early.
        drained: results of the drains, each with node and problem (empty on success).
    """
    checked = typed(options)
    tests = state["tests"]
    blamed, unresolved = culprits(checked, state)
    rest = next_step(checked, state)
    unrun = stopped or ("not all tests were run" if rest["tests"] else "")
    counting = _counting(checked, state)
    verdicts = [test["verdict"] for test in counting] + [FAIL] * bool(blamed)
    verdicts += [INCONCLUSIVE] * bool(state["problem"] or unresolved or unrun or state["left_out"] or rest["skipped"])
    # A search without a culprit counts as a pass, although none of its tests counts.
    verdicts += [PASS] * bool(tests and state["search_rounds"])
    verdict = worst(verdicts)
    reason = _reason(verdict, {**state, "tests": counting}, blamed, unresolved, unrun)
    started = [test for test in counting if test["name"] not in state["not_started"]]
    # Without the unavailable nodes, the verdict would be PASS.
    not_tested = bool(
        (state["busy"] or state["left_out"])
        and not (blamed or unresolved or unrun or state["problem"])
        and all(node in state["busy"] or is_taken(why) for node, why in state["left_out"].items())
        and all(test["verdict"] == PASS for test in started)
    )
    allowed = not_tested and checked["allow_busy"] and not state["left_out"].keys() - state["busy"].keys()
    if allowed:
        reason = _left_out_words(state, started)
    found = broken_report(checked, state, unrun)
    found |= {
        "verdict": verdict,
        "reason": reason,
        "busy_allowed": allowed,
        "not_tested": not_tested,
        "unresolved": unresolved,
        "suspected": _suspected(checked, state, blamed),
        "skipped": rest["skipped"],
        "drain": {**drain_plan(checked, blamed, state), "done": drained or []},
    }
    # Without a search, the reader of the report infers the culprits from the tests.
    if blamed or state["search_rounds"]:
        found["culprits"] = blamed
    return found


def broken_report(options: Options, state: State, why: str) -> Report:
    """Return an INCONCLUSIVE report with the tests so far, if `report` raised an error.

    Args:
        options: the result of check_options.typed.
        state: results so far.
        why: the error.
    """
    return {
        "schema": SCHEMA,
        "verdict": INCONCLUSIVE,
        "reason": why,
        "busy": state["busy"],
        "busy_allowed": False,
        "not_tested": False,
        "cluster": options["cluster"],
        "started": options["started"],
        "backend": options["backend"],
        "nodes": options["nodes"],
        "left_out": state["left_out"],
        "unresolved": [],
        "skipped": {},
        "stopped": why,
        "search_rounds": state["search_rounds"],
        "drain": {"nodes": [], "refused": "", "done": []},
        "held": state["held"],
        "held_by": state["held_by"],
        "tests": state["tests"],
        "node_reasons": state["node_reasons"],
        "settings": {key: value for key, value in options.items() if key in _SETTINGS},
    }


def _left_out_words(state: State, started: list[Test]) -> str:
    """Return a message about nodes left out because of other jobs, and the result of the other nodes."""
    nodes_of: dict[str, list[str]] = {}
    for node, jobs in sorted(state["busy"].items()):
        nodes_of.setdefault(jobs, []).append(node)
    shown = [f"{fold_hosts(nodes)} ({jobs})" for jobs, nodes in list(nodes_of.items())[:_MOST_EVIDENCE]]
    more = " and more" if len(nodes_of) > _MOST_EVIDENCE else ""
    tested = fold_hosts(list(dict.fromkeys(node for test in started for node in test["nodes"])))
    rest = f"all tests that ran on {tested} passed" if tested else "no node was tested"
    return f"left out {', '.join(shown)}{more}; {rest}"


def _counting(options: Options, state: State) -> list[Test]:
    """Return the tests whose verdicts count, each with its final verdict."""
    tests = state["tests"]
    passed = {_who_and_what(test) for test in tests if test["verdict"] == PASS}
    done = search_done(options, state)
    last = {_who_and_what(test): test for test in tests if _counts(test) is Counts.WHILE_SEARCHING}
    counting = []
    for test in tests:
        when = _counts(test)
        if when is Counts.WHILE_SEARCHING:
            if not done and last[_who_and_what(test)] is test:
                counting.append(test)
        elif when is Counts.UNLESS_IT_PASSED_TOO and test["verdict"] == FAIL and _who_and_what(test) in passed:
            once = test.copy()
            once["verdict"] = INCONCLUSIVE
            once["reason"] = f"failed once ({test['reason']}), but passed another run with the same nodes"
            counting.append(once)
        else:
            counting.append(test)
    return counting


def _counts(test: Test) -> Counts:
    stage = stage_registry.stage_of(test)
    return stage.counts if stage else Counts.ALWAYS


def _speaks_for_all(test: Test) -> bool:
    stage = stage_registry.stage_of(test)
    return stage is not None and stage.rank == 0


def _who_and_what(test: Test) -> tuple[frozenset[str], str, str]:
    return frozenset(member_nodes(test)), test["collective"], test["rail"]


def _reason(
    verdict: str,
    state: State,
    blamed: list[Culprit],
    unresolved: list[Unresolved],
    unrun: str,
) -> str:
    """Return the reason of the verdict: the faulty nodes, else a test with that verdict, else the missing results."""
    if blamed:
        first = blamed[0]
        more = f", and {len(blamed) - 1} more" if len(blamed) > 1 else ""
        alone = any(first["reason"].startswith(f"{name}: ") for name in first["tests"])
        return (
            f"{first['reason']}{more}"
            if alone or first["kind"] == "rail"
            else f"{_who(first)}: {first['reason']}{more}"
        )
    if state["problem"]:
        return state["problem"]
    telling = [test for test in state["tests"] if test["verdict"] == verdict]
    if telling:
        # If all tests passed or lack a floor, the test of all nodes is the most informative.
        alike = verdict == PASS or all(test["reason"].startswith(NO_FLOOR) for test in telling)
        test = next((test for test in telling if alike and _speaks_for_all(test)), telling[0])
        return f"{test['name']}: {test['reason']}"
    if state["left_out"]:
        return f"not tested: {', '.join(f'{node} ({why})' for node, why in sorted(state['left_out'].items()))}"
    if unresolved:
        return f"{fold_hosts(unresolved[0]['nodes'])}: {unresolved[0]['reason']}"
    searched = f"{state['search_rounds']} round(s) of the culprit search found no fault" if verdict == PASS else ""
    return unrun or searched or "no test ran"


def _who(culprit: Culprit) -> str:
    return "-".join(culprit["nodes"]) if culprit["kind"] == "link" else fold_hosts(culprit["nodes"])


def summary_lines(data: Report) -> list[str]:
    """Return one line per test, then lines about left-out nodes, faulty nodes, node changes, and the verdict."""
    lines = []
    blamed = data.get("culprits", [])
    allowed = data["busy_allowed"]
    for test in data["tests"]:
        if allowed and test["verdict"] != PASS:
            continue  # left-out nodes follow below
        who = fold_hosts(test["nodes"] + test["partners"]) or "no node"
        ranks = f", {test['ranks']} ranks" if kind_of(test) == COLLECTIVE else ""
        lines.append(f"{test['verdict']}  {test['name']} on {who}{ranks}: {test['reason']}")
        lines += [f"      {finding}" for finding in test["findings"]]
    lines += [f"not tested  {node}: {reason}" for node, reason in sorted(data["left_out"].items())]
    lines += [f"not run  stage {stage}: {reason}" for stage, reason in data["skipped"].items()]
    if data["stopped"]:
        lines.append(f"stopped  {data['stopped']}")
    guilty = [item["nodes"][0] for item in blamed if item["kind"] == "node"]
    if guilty:
        lines.append(f"FAIL  culprit nodes: {fold_hosts(guilty)}")
    for item in blamed:
        shown = ", ".join(item["tests"][:_MOST_EVIDENCE]) + (", …" if len(item["tests"]) > _MOST_EVIDENCE else "")
        who = "" if item["kind"] == "rail" else f"{item['kind']} {_who(item)}: "
        lines.append(f"FAIL  {who}{item['reason']} ({shown})")
    lines += [f"INCONCLUSIVE  {fold_hosts(item['nodes'])}: {item['reason']}" for item in data["unresolved"]]
    lines += [f"suspected  {fold_hosts(item['nodes'])}: {item['reason']}" for item in data.get("suspected", [])]
    if data["drain"]["refused"]:
        lines.append(data["drain"]["refused"])
    drain, reasons = data["drain"], {item["node"]: item["reason"] for item in data["drain"]["nodes"]}
    changes = node_changes(drain.get("done", []), data.get("resumed", []), data["held"], data["held_by"], reasons)
    lines += [f"{what}  {node}: {why}" if why else f"{what}  {node}" for what, node, why in changes]
    lines += [f"left over  {words}" for words in data.get("leftovers", [])]
    heading = "validation" if allowed else f"{data['verdict']}  validation of {data['cluster']}:"
    return [*lines, f"{heading} {data['reason']}"]
