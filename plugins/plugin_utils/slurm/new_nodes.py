"""Find nodes to admit to a running cluster, and machines that the cluster already has under a different name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...module_utils.common.problems import make_problem
from ...module_utils.slurm.busbar_drain_reasons import NEW_RESERVATION, is_new, is_untested
from ...module_utils.slurm.reservation import parse_reservation
from ...module_utils.slurm.scontrol_nodes import read_text_nodes
from ..engine.common.hostlist import fold_hosts, unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...module_utils.common.problems import Problem
    from ...module_utils.slurm.scontrol_nodes import Node

# In these states a node accepts no jobs, so provisioning it is safe.
_OUT_OF_SERVICE = frozenset({"drained", "down"})
_GATE = f"ReservationName={NEW_RESERVATION} "
_ADDRESS = re.compile(r"\binet6?\s+([0-9a-fA-F.:]+)")
_KNOWN_AS = re.compile(r"^NodeName=(\S+)(?=.*?\sNodeAddr=(\S+))?(?=.*?\sNodeHostName=(\S+))?", re.MULTILINE)


def node_admission(
    declared: Sequence[str], shown: str, requested: str | Sequence[str] = "", drained: str | Sequence[str] = ""
) -> dict[str, list[str]]:
    """Return the new, untested and forgotten nodes.

    `new` nodes, in inventory order, do not exist in Slurm or are in the reservation busbar-new. `untested` nodes are in
    that reservation without a validation verdict. `forgotten` nodes exist in Slurm but not in the inventory.

    Args:
        declared: compute nodes of the inventory.
        shown: output of ``scontrol --oneliner show nodes``, and of the same for the reservation busbar-new.
        requested: requested nodes, as a list or folded; only these can be new.
        drained: nodes that would be drained by now outside of check mode.

    Raises:
        ValueError: if a requested node is not a compute node of the inventory, or is in service.
    """
    known = {node.name: node for node in read_text_nodes(shown)}
    left = _left_behind(shown)
    there = set(declared)
    return {
        "new": _new_nodes(declared, known, left, requested, drained),
        "untested": [name for name, node in known.items() if is_untested(node.reason) or name in left],
        "forgotten": [name for name in known if name not in there],
    }


def _new_nodes(
    declared: Sequence[str],
    known: Mapping[str, Node],
    left: set[str],
    requested: str | Sequence[str],
    drained: str | Sequence[str],
) -> list[str]:
    if not requested:
        return [name for name in declared if name not in known or is_new(known[name].reason) or name in left]
    wanted = set(unfold_hosts(requested))
    strangers = wanted - set(declared)
    if strangers:
        message = f"{fold_hosts(strangers)}: not a compute node of the inventory; add it to the group slurm_compute"
        raise ValueError(message)
    out = left | set(unfold_hosts(drained))
    serving = [name for name in sorted(wanted - out) if name in known and known[name].state not in _OUT_OF_SERVICE]
    if serving:
        names, states = fold_hosts(serving), ", ".join(sorted({known[name].state for name in serving}))
        message = (
            f"new_nodes: {names} is in service ({states}) and may run jobs: to test it, run "
            f"busbar validate -e 'validation_nodes={names}'; to admit it again, drain it first"
        )
        raise ValueError(message)
    return [name for name in declared if name in wanted]


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
