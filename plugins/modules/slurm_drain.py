"""Module that takes nodes out of service and waits until their jobs have finished."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_drain
author: busbar contributors (!UNKNOWN)
short_description: Drain nodes of Slurm and wait for their jobs, or resume them
description:
  - Drains nodes in Slurm in one step, then waits until no job runs on them.
  - Cancels no jobs. If jobs remain after O(wait_s), fails and lists them with their owners; the nodes stay drained.
  - In check mode, reports the jobs that it would wait for.
  - A drained node keeps its drain reason, unless O(replace_reason) is set.
  - With O(state=resumed), waits until slurmd of the nodes answers, resumes the nodes whose drain reason starts with
    O(reason), and waits until they are in service. Nodes that are in service or drained for another reason stay
    unchanged.
  - Must run on a host and as a user with permission to change nodes with C(scontrol).
extends_documentation_fragment: busbar.cluster.attributes
options:
  nodes:
    description: Nodes to change, as a list or a Slurm host list such as C(gpu[3-4]).
    type: raw
    required: true
  reason:
    description: Drain reason, as C(sinfo -R) shows it; with O(state=resumed), its prefix.
    type: str
    required: true
  state:
    description: Whether to drain or to resume the nodes.
    type: str
    choices: [drained, resumed]
    default: drained
  wait_s:
    description: Seconds to wait for the jobs of these nodes, 0 or more. Resumed nodes have 120 s to answer.
    type: raw
    default: 0
  replace_reason:
    description: Whether to replace the drain reason of nodes that are already drained.
    type: bool
    default: false
  protect:
    description: Hosts that must not be drained, by the group that gives them another function in the cluster.
    type: dict
    default: {}
  key:
    description: Name of the variable with the nodes, for messages.
    type: str
    default: nodes
  wait_key:
    description: Name of the variable with the timeout, for messages.
    type: str
    default: wait_s
"""

EXAMPLES = r"""
- name: Drain two nodes and give their jobs an hour
  busbar.cluster.slurm_drain:
    nodes: gpu[3-4]
    reason: "busbar: leaves the cluster"
    wait_s: 3600

- name: Resume the nodes
  busbar.cluster.slurm_drain:
    nodes: gpu[3-4]
    reason: "busbar: leaves the cluster"
    state: resumed
"""

RETURN = r"""
nodes:
  description: The nodes as a list.
  returned: with O(state=drained)
  type: list
  elements: str
drained:
  description: Nodes that were in service and are now drained.
  returned: with O(state=drained)
  type: list
  elements: str
before:
  description: Drain reasons of nodes that were already drained, or down with the reason of an admin.
  returned: with O(state=drained)
  type: dict
busy:
  description: Jobs that still run after O(wait_s), by node.
  returned: when jobs are left
  type: dict
would:
  description: Planned changes, with the jobs to wait for.
  returned: in check mode
  type: str
resumed:
  description: The resumed nodes.
  returned: with O(state=resumed)
  type: list
  elements: str
left:
  description: Nodes that were not resumed, with the reason.
  returned: with O(state=resumed)
  type: dict
"""

import difflib
import time
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import REFUSED
from ..module_utils.slurm.hostlist import expand_hosts
from ..module_utils.slurm.local_node import HOLDING_STATES, ask_slurm
from ..module_utils.slurm.nodes_and_jobs import jobs_on, parse_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BETWEEN_LOOKS_S = 2.0
_JOB_FIELDS = 3
# Reasons that Slurm sets on a node whose slurmd was down during a reboot.
REBOOTED = ("Node unexpectedly rebooted", "Not responding")
ANSWER_S = 120
LOOK = ["sinfo", "-h", "-N", "-a", "-o", "%N|%T|%E"]

Known = dict[str, tuple[str, str]]


def unknown_nodes(wanted: Sequence[str], known: Sequence[str], key: str) -> str:
    """Return the error for names that are not nodes in Slurm, or an empty string."""
    words = []
    for name in sorted(set(wanted) - set(known)):
        near = difflib.get_close_matches(name, known, 1)
        words.append(f"{name}" + (f" (did you mean {near[0]}?)" if near else ""))
    return f"{key}: not nodes in Slurm: {', '.join(words)}; `sinfo -N` lists the nodes" if words else ""


def protected_nodes(wanted: Sequence[str], protect: Mapping[str, Sequence[str]], key: str) -> str:
    """Return the error for nodes that have another role in the cluster, or an empty string."""
    words = [f"{name} is in the group {group}" for group, hosts in protect.items() for name in wanted if name in hosts]
    remedy = "move that role to another host first, and remove the node from the group"
    return f"{key}: {'; '.join(words)}: {remedy}. No node was changed" if words else ""


def foreign_reason(state: str, reason: str, own: str) -> str:
    """Return the reason of an admin for a node that is down, or an empty string.

    Such a node is drained with that reason, so that `resume` leaves it out of service.
    """
    theirs = state.startswith(("down", "fail")) and not reason.startswith((own, *REBOOTED))
    return reason if theirs else ""


def jobs_left(text: str) -> list[str]:
    """Return descriptions of the jobs in the output of ``squeue -h -o '%i|%u|%N'``."""
    lines = [line.strip().split("|") for line in text.splitlines()]
    return [f"job {line[0]} of {line[1]} on {line[2]}" for line in lines if len(line) == _JOB_FIELDS]


def held_now(module: AnsibleModule, nodes: Sequence[str]) -> str:
    """Return the squeue output for the current jobs on the nodes."""
    return str(ask_slurm(module, ["squeue", "-h", "-a", "-w", ",".join(nodes), "-t", HOLDING_STATES, "-o", "%i|%u|%N"]))


def would_do(drained: Sequence[str], wanted: Sequence[str], jobs: Sequence[str], wait: str) -> str:
    """Describe what the module would do without check mode.

    Args:
        drained: nodes that are not drained yet.
        wanted: all requested nodes.
        jobs: descriptions of the current jobs on the nodes.
        wait: description of the maximum wait.
    """
    first = f"would drain {','.join(drained)}" if drained else f"would leave {','.join(wanted)} drained"
    if not jobs:
        return f"{first}; no jobs on {','.join(wanted)} now"
    return (
        f"{first} and wait for {', '.join(jobs)}, {wait}; the run stops at jobs that remain then, and does "
        "not cancel them"
    )


def wait_for_jobs(module: AnsibleModule, nodes: Sequence[str]) -> str:
    """Wait until the nodes have no jobs; return the squeue output for jobs that remain after the timeout."""
    end = time.monotonic() + int(module.params["wait_s"])
    while jobs_left(left := held_now(module, nodes)) and time.monotonic() < end:
        time.sleep(min(BETWEEN_LOOKS_S, max(end - time.monotonic(), 0)))
    return left


def answers(known: Known, node: str) -> bool:
    """Return whether a node's slurmd responds."""
    state = known.get(node, ("unknown", ""))[0]
    return "*" not in state and not state.startswith("unknown")


def is_out(known: Known, node: str) -> bool:
    """Return whether a node accepts no jobs until an administrator resumes it."""
    return known.get(node, ("unknown", ""))[0].startswith(("drain", "down", "fail"))


def wait_until(module: AnsibleModule, nodes: Sequence[str], holds: Callable[[Known, str], bool]) -> Known:
    """Wait until `holds` is true for all nodes, or for the timeout; return the nodes' states in Slurm."""
    end = time.monotonic() + ANSWER_S
    while True:
        known = parse_nodes(ask_slurm(module, LOOK))
        if all(holds(known, node) for node in nodes) or time.monotonic() >= end:
            return known
        time.sleep(BETWEEN_LOOKS_S)


def resume(module: AnsibleModule, wanted: Sequence[str]) -> None:
    """Put nodes back into service."""
    own = (module.params["reason"], *REBOOTED)
    known = parse_nodes(ask_slurm(module, LOOK)) if module.check_mode else wait_until(module, wanted, answers)
    silent = [node for node in wanted if not answers(known, node)]
    out = [node for node in wanted if node not in silent and is_out(known, node)]
    todo = [node for node in out if known[node][1].startswith(own)]
    left = dict.fromkeys(silent, f"slurmd did not answer within {ANSWER_S} s")
    left |= {node: f"{known[node][0]}: {known[node][1]}, left unchanged" for node in out if node not in todo}
    if todo and not module.check_mode:
        ask_slurm(module, ["scontrol", "update", f"NodeName={','.join(todo)}", "State=RESUME"])
        known = wait_until(module, todo, lambda now, node: answers(now, node) and not is_out(now, node))
        left |= {node: f"{known[node][0]} after resuming: {known[node][1]}" for node in todo if is_out(known, node)}
    resumed = [node for node in todo if node not in left]
    module.exit_json(changed=bool(todo), resumed=resumed, left=left)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "raw", "required": True},
            "reason": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "resumed"], "default": "drained"},
            "wait_s": {"type": "raw", "default": 0},
            "replace_reason": {"type": "bool", "default": False},
            "protect": {"type": "dict", "default": {}},
            "key": {"type": "str", "default": "nodes", "no_log": False},
            "wait_key": {"type": "str", "default": "wait_s", "no_log": False},
        },
        supports_check_mode=True,
    )
    key = module.params["key"]
    try:
        given = module.params["nodes"]
        text = ",".join(map(str, given)) if isinstance(given, list) else str(given or "")
        wanted = list(dict.fromkeys(expand_hosts(text)))
    except ValueError as error:
        module.fail_json(msg=f"{key}: {error}", **{REFUSED: True})
    if module.params["state"] == "resumed":
        resume(module, wanted)
    if not str(module.params["wait_s"]).isdecimal():
        wrong = f"{module.params['wait_key']}: {module.params['wait_s']!r} is not a number of seconds: use 0 or more"
        module.fail_json(msg=wrong, **{REFUSED: True})
    known = parse_nodes(ask_slurm(module, LOOK))
    if not wanted:
        module.fail_json(msg=f"{key} is empty: name nodes, such as -e {key}=gpu[3-4]", **{REFUSED: True})
    if problem := unknown_nodes(wanted, list(known), key) or protected_nodes(wanted, module.params["protect"], key):
        module.fail_json(msg=problem, **{REFUSED: True})
    drained = [name for name in wanted if "drain" not in known[name][0]]
    reason = " ".join(module.params["reason"].split())
    renamed = [name for name in wanted if module.params["replace_reason"] and known[name][1] != reason]
    updated = list(dict.fromkeys([*drained, *renamed]))
    kept = {} if module.params["replace_reason"] else {name: foreign_reason(*known[name], reason) for name in drained}
    nodes_of: dict[str, list[str]] = {}
    for name in updated:
        nodes_of.setdefault(kept.get(name) or reason, []).append(name)
    for own, nodes in nodes_of.items() if not module.check_mode else ():
        ask_slurm(module, ["scontrol", "update", f"NodeName={','.join(nodes)}", "State=DRAIN", f"Reason={own}"])
    drained = [name for name in drained if not kept.get(name)]
    before = {name: known[name][1] for name in wanted if name not in drained}
    if module.check_mode:
        jobs = jobs_left(held_now(module, wanted))
        wait = f"at most {module.params['wait_s']} s ({module.params['wait_key']})"
        would = would_do(drained, wanted, jobs, wait)
        module.exit_json(changed=bool(updated), nodes=wanted, drained=drained, before=before, would=would)
    queue = wait_for_jobs(module, wanted)
    if left := jobs_left(queue):
        # Nodes that an admin drained stay out of service.
        ours = [name for name in wanted if name in drained or known[name][1].startswith(reason)]
        resume_words = f", or resume the nodes: scontrol update nodename={','.join(ours)} state=resume" if ours else ""
        module.fail_json(
            msg=f"{','.join(wanted)}: {', '.join(left)}, after {module.params['wait_s']} s. No job was cancelled, and "
            f"the nodes stay drained. Run again later or with a larger {module.params['wait_key']}, or "
            f"cancel the jobs (scancel){resume_words}",
            nodes=wanted,
            drained=drained,
            before=before,
            busy=jobs_on(queue, wanted),
        )
    module.exit_json(changed=bool(updated), nodes=wanted, drained=drained, before=before)


if __name__ == "__main__":
    main()
