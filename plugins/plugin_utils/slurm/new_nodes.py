"""Find nodes to admit to a running cluster, and machines that the cluster already has under a different name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypedDict

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.slurm.busbar_drain_reasons import NEW_RESERVATION, is_new, is_untested
from ...module_utils.slurm.reservation import parse_reservation
from ...module_utils.slurm.scontrol_nodes import read_text_nodes
from ..engine.common.hostlist import fold_hosts, unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...module_utils.slurm.scontrol_nodes import Node

# In these states a node accepts no jobs, so provisioning it is safe.
_OUT_OF_SERVICE = frozenset({"drained", "down"})
_GATE = f"ReservationName={NEW_RESERVATION} "
_ADDRESS = re.compile(r"\binet6?\s+([0-9a-fA-F.:]+)")
_KNOWN_AS = re.compile(r"^NodeName=(\S+)(?=.*?\sNodeAddr=(\S+))?(?=.*?\sNodeHostName=(\S+))?", re.MULTILINE)


class Admission(TypedDict):
    """Nodes by their relation to the cluster, and the problems with the requested ones."""

    new: list[str]
    untested: list[str]
    forgotten: list[str]
    problems: list[Problem]


def node_admission(
    declared: Sequence[str], shown: str, requested: str | Sequence[str] = "", drained: str | Sequence[str] = ""
) -> Admission:
    """Return the new, untested and forgotten nodes, and the problems with the requested ones.

    `new` nodes, in inventory order, do not exist in Slurm or are in the reservation busbar-new. `untested` nodes are in
    that reservation without a validation verdict. `forgotten` nodes exist in Slurm but not in the inventory.

    Args:
        declared: compute nodes of the inventory.
        shown: output of ``scontrol --oneliner show nodes``, and of the same for the reservation busbar-new.
        requested: requested nodes, as a list or folded; only these can be new.
        drained: nodes that would be drained by now outside of check mode.
    """
    known = {node.name: node for node in read_text_nodes(shown)}
    left = _left_behind(shown)
    there = set(declared)
    try:
        wanted = set(unfold_hosts(requested))
        problems = _requested_problems(wanted, there, known, left | set(unfold_hosts(drained)))
    except ValueError as exc:
        wanted, problems = set(), [make_problem([], "new_nodes", str(exc), "correct the list of nodes")]
    waiting = {name for name in declared if name not in known or is_new(known[name].reason) or name in left}
    return {
        "problems": problems,
        "new": [name for name in declared if name in (wanted if requested else waiting)] if not problems else [],
        "untested": [name for name, node in known.items() if is_untested(node.reason) or name in left],
        "forgotten": [name for name in known if name not in there],
    }


def _requested_problems(
    wanted: set[str], declared: set[str], known: Mapping[str, Node], out: set[str]
) -> list[Problem]:
    """Return the problems with requested nodes: unknown ones, and those in service."""
    problems = []
    strangers = sorted(wanted - declared)
    if strangers:
        remedy = f"use nodes of {fold_hosts(declared) or 'the inventory'}, or add the host to the group slurm_compute"
        problems.append(make_problem(strangers, "new_nodes", "is not a compute node of the inventory", remedy))
    serving = [name for name in sorted(wanted - out) if name in known and known[name].state not in _OUT_OF_SERVICE]
    if serving:
        states = ", ".join(sorted({known[name].state for name in serving}))
        remedy = (
            f"to test it, run busbar validate -e 'validation_nodes={fold_hosts(serving)}'; to admit it again, drain it "
            "first"
        )
        problems.append(make_problem(serving, "new_nodes", f"is in service ({states}) and may run jobs", remedy))
    return problems


def _left_behind(shown: str) -> set[str]:
    """Return the nodes in the reservation busbar-new that are not drained, because a validation was killed."""
    found = parse_reservation("\n".join(line for line in shown.splitlines() if line.startswith(_GATE)))
    return set(found.nodes) if found else set()


def new_node_problems(
    new: Sequence[str], shown: str, machines: Mapping[str, str], forgotten: str = ""
) -> list[Problem]:
    """Return a problem for each new node that is already in Slurm under a different name.

    Args:
        new: the nodes to admit.
        shown: output of ``scontrol --oneliner show nodes``.
        machines: host name, slurmd state and addresses (as shown by ``ip``) of each node's machine.
        forgotten: output of ``getent hosts`` on the controller for the forgotten nodes.
    """
    owners = {word: name for name, *words in _KNOWN_AS.findall(shown) for word in (name, *words) if word}
    resolved = [line.split() for line in forgotten.splitlines() if line.strip()]
    by_address = {words[0]: next((owners[word] for word in words[1:] if word in owners), "") for words in resolved}
    problems = []
    for node in new:
        lines = machines.get(node, "").splitlines()
        addresses = _ADDRESS.findall("\n".join(lines[2:]))
        called = lines[0].split(".")[0] if lines else ""
        running = len(lines) > 1 and lines[1].strip() in {"active", "activating"}
        has = {name for name in (owners.get(word, "") for word in (node, *addresses)) if name}
        has |= {name for name in map(by_address.get, addresses) if name}
        has |= {owners[called]} if running and called in owners else set()
        for name in sorted(has - {node}):
            problem = f"is already in the cluster as {name}"
            remedy = f"name it {name}, or remove {name} first: busbar provision remove_nodes -e remove_nodes={name}"
            problems.append(make_problem([node], "slurm_compute", problem, remedy))
    return problems
