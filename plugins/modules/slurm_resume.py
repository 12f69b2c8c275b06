"""Module that puts nodes back into service which a drain of ours took out."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_resume
author: busbar contributors
short_description: Put nodes of Slurm back into service that one reason has drained
description:
  - Waits until slurmd of the nodes answers, then resumes them in one step, and waits until they are in service.
  - Resumes no node that is drained for another reason. One that is in service already is left as it is.
  - Asks Slurm for all nodes at once, however many they are. Runs where C(scontrol) may change nodes.
extends_documentation_fragment: busbar.cluster.attributes
options:
  nodes:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
  reason:
    description: What the reason of the drain must begin with.
    type: str
    required: true
  wait_s:
    description: How many seconds the nodes have to answer, and then to be in service.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Put two nodes back that an update has drained
  busbar.cluster.slurm_resume:
    nodes: [gpu3, gpu4]
    reason: "busbar: update"
"""

RETURN = r"""
resumed:
  description: The nodes that were put back.
  returned: always
  type: list
  elements: str
left:
  description: Nodes that were not, with the reason.
  returned: always
  type: dict
"""

import time
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.ask import ask_slurm
from ..module_utils.slurm.jobs import parse_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BETWEEN_LOOKS_S = 2.0
# What Slurm itself says of a node whose slurmd was gone while it was rebooted.
REBOOTED = ("Node unexpectedly rebooted", "Not responding")
LOOK = ["sinfo", "-h", "-N", "-a", "-o", "%N|%T|%E"]

Known = dict[str, tuple[str, str]]


def answers(known: Known, node: str) -> bool:
    """Return whether slurmd of a node answers."""
    state = known.get(node, ("unknown", ""))[0]
    return "*" not in state and not state.startswith("unknown")


def is_out(known: Known, node: str) -> bool:
    """Return whether a node takes no jobs until somebody resumes it."""
    return known.get(node, ("unknown", ""))[0].startswith(("drain", "down", "fail"))


def wait_until(module: AnsibleModule, nodes: Sequence[str], holds: Callable[[Known, str], bool]) -> Known:
    """Return what Slurm says once all nodes are so, or when the time is over."""
    end = time.monotonic() + module.params["wait_s"]
    while True:
        known = parse_nodes(ask_slurm(module, LOOK))
        if all(holds(known, node) for node in nodes) or time.monotonic() >= end:
            return known
        time.sleep(BETWEEN_LOOKS_S)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "required": True},
            "reason": {"type": "str", "required": True},
            "wait_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    wanted, own = module.params["nodes"], (module.params["reason"], *REBOOTED)
    known = parse_nodes(ask_slurm(module, LOOK)) if module.check_mode else wait_until(module, wanted, answers)
    silent = [node for node in wanted if not answers(known, node)]
    out = [node for node in wanted if node not in silent and is_out(known, node)]
    todo = [node for node in out if known[node][1].startswith(own)]
    left = dict.fromkeys(silent, f"slurmd does not answer after {module.params['wait_s']} s")
    left |= {node: f"{known[node][0]}: {known[node][1]}, and left as it is" for node in out if node not in todo}
    if todo and not module.check_mode:
        ask_slurm(module, ["scontrol", "update", f"NodeName={','.join(todo)}", "State=RESUME"])
        known = wait_until(module, todo, lambda now, node: answers(now, node) and not is_out(now, node))
        left |= {node: f"{known[node][0]} after its resume: {known[node][1]}" for node in todo if is_out(known, node)}
    resumed = [node for node in todo if node not in left]
    module.exit_json(changed=bool(todo), resumed=resumed, left=left)


if __name__ == "__main__":
    main()
