# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Decide which drained nodes to resume after a validation, and describe the changes of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ....module_utils.slurm.busbar_drain_reasons import NEW_REASON, is_new, is_unfinished, new_reason
from ....module_utils.slurm.driver_drain import DRAIN_REASON
from ....module_utils.slurm.reservation import NO_REASON
from .nccl_judge import FAIL, PASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .validation_types import Blamed, Culprit, Options, Report, State

# Prefix of drain reasons set by busbar; other reasons come from admins or Slurm.
OWN_REASON = "busbar:"
_MOST_REASON = 200
_ALONE = "no test together with other nodes has passed"
# Drain reasons of busbar that a passed test does not resolve: a driver upgrade that requires a reboot, a new MIG layout
# (mig_layout module), a node to be removed (remove_nodes playbook), and a drain without a reason.
_NOT_RESOLVED = (DRAIN_REASON, "busbar: MIG layout", "busbar: leaves the cluster", NO_REASON)


def keeps_reason(state: State, node: str) -> bool:
    """Return whether an admin, Slurm or an unfinished playbook drained a node, so that its drain reason is kept."""
    reason = state["held"].get(node)
    if reason is None:
        return False
    return not reason.startswith(OWN_REASON) or reason.startswith(_NOT_RESOLVED) or is_unfinished(reason)


def slurm_reason(words: str) -> str:
    """Return a drain reason in the format that Slurm accepts."""
    kept = "".join(char if char.isprintable() and char not in "\"'\\" else " " for char in words)
    return f"{OWN_REASON} {kept.removeprefix(OWN_REASON).strip()}"[:_MOST_REASON]


def passed_nodes(state: State, report: Report, blamed: Sequence[Culprit]) -> list[str]:
    """Return the drained nodes that passed all their tests, alone and with others.

    A failed test with others does not count against a node if the search found a different culprit. If a result is
    inconclusive, the validation stopped early, or a link or a switch is the culprit, only nodes without any failed test
    have passed. A new node must also have passed a test with others.

    Args:
        state: the final state.
        report: report of the validation.
        blamed: the culprits.
    """
    guilty = {node for item in blamed for node in item["nodes"]}
    unclear = {node for item in report["unresolved"] for node in item["nodes"]}
    explained = bool(blamed) and all(item["kind"] in {"node", "rail"} for item in blamed)
    # A FAIL without a culprit, such as drift, counts against all nodes.
    unfinished = bool(report["stopped"] or state["problem"] or (report["verdict"] == FAIL and not blamed))
    found = []
    for node in sorted(state["held"].keys() - guilty - unclear - report["left_out"].keys()):
        mine = [test for test in state["tests"] if node in test["nodes"] + test["partners"]]
        bad = [test for test in mine if test["verdict"] != PASS]
        alone = any(len(test["nodes"] + test["partners"]) == 1 for test in bad)
        others = all(test["verdict"] == FAIL and guilty & {*test["nodes"], *test["partners"]} for test in bad)
        together = any(test["verdict"] == PASS and len(test["nodes"] + test["partners"]) > 1 for test in mine)
        known = together or not is_new(state["held"][node])
        if mine and known and not alone and not unfinished and (not bad or (explained and others)):
            found.append(node)
    return found


def released_nodes(options: Options, state: State, passed: Sequence[str]) -> list[str]:
    """Return the passed nodes to resume: those drained by busbar, all, or none, depending on the `resume` option."""
    policy = options.get("resume") or "own"
    if policy == "none":
        return []
    return [node for node in passed if policy == "all" or not keeps_reason(state, node)]


def not_admitted(state: State, report: Report, blamed: Sequence[Culprit], opened: Sequence[str]) -> list[Blamed]:
    """Return the new nodes that stay out of service, each with the drain reason.

    Args:
        state: the final state.
        report: report of the validation.
        blamed: the culprits.
        opened: the nodes that are put into service.
    """
    lines = (line.partition(" ") for line in state["node_reasons"])
    drained = {node: reason.rpartition(" (")[0] for node, _space, reason in lines} | state["held"]
    why = dict.fromkeys(report["nodes"], report["reason"] if report["verdict"] != PASS else _ALONE)
    why |= {node: words.split(f" ({NEW_REASON}")[0] for node, words in report["left_out"].items()}
    for item in [*reversed(report["unresolved"]), *reversed(blamed)]:
        why |= dict.fromkeys(item["nodes"], item["reason"])
    behind = [node for node in report["nodes"] if is_new(drained.get(node, "")) and node not in opened]
    return [{"node": node, "reason": slurm_reason(new_reason(why[node]))} for node in behind]


class NodeChange(NamedTuple):
    """A change of a node's state.

    Attributes:
        what: drained, behind the gate, not drained, resumed, not resumed or stays drained.
        node: name.
        why: drain reason or problem.
    """

    what: str
    node: str
    why: str


def node_changes(
    drained: Iterable[Mapping[str, str]],
    resumed: Iterable[Mapping[str, str]],
    held: Mapping[str, str],
    held_by: Mapping[str, str],
    reasons: Mapping[str, str],
) -> list[NodeChange]:
    """Return the node changes for a report.

    Args:
        drained: nodes to drain, each with the error; empty on success.
        resumed: nodes to resume, in the same format.
        held: nodes that were already drained, with the drain reason.
        held_by: user and time of these drains; may be incomplete.
        reasons: drain reasons of the nodes; a new node with one stays out of service.
    """
    before = {node: f"{why} ({held_by[node]})" if held_by.get(node) else why for node, why in held.items()}
    new = {node: why for node, why in reasons.items() if is_new(why)}
    changes = [
        NodeChange("behind the gate", item["node"], new[item["node"]])
        if item["node"] in new and not item["problem"]
        else NodeChange("not drained" if item["problem"] else "drained", item["node"], item["problem"])
        for item in drained
    ]
    changes += [
        NodeChange("not resumed", item["node"], item["problem"])
        if item["problem"]
        else NodeChange("resumed", item["node"], f"was drained: {before.get(item['node'], '')}")
        for item in resumed
    ]
    named = {change.node for change in changes}
    return changes + [
        NodeChange("stays drained", node, why) for node, why in sorted(before.items()) if node not in named
    ]
