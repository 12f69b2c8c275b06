"""Module that selects nodes to repair, chooses the repair of a node, and records repairs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_repair
author: busbar contributors (!UNKNOWN)
short_description: Select nodes to repair, choose the repair of a node, and record repairs
description:
  - With O(plan), returns the nodes that may be repaired, by their state in Slurm and the history of repairs. Run it on
    the controller. Changes nothing.
  - With O(choose), runs the node's health check again and chooses between a reset of its GPUs, a reboot, and no repair.
    Run it on the node. Changes nothing.
  - With O(records), adds records to the history on the controller, a file of JSON lines. It keeps the records of one
    year, at most 100000.
extends_documentation_fragment: busbar.cluster.attributes
options:
  plan:
    description: Nodes from which those to repair are selected.
    type: dict
    suboptions:
      requested:
        description: Nodes to repair, as names or a Slurm host list; if empty, all nodes that the health check drained.
        type: raw
      compute: {description: Compute nodes of the inventory., type: list, elements: str, required: true}
      limited:
        description: Hosts of this run; other nodes are not repaired.
        type: list
        elements: str
        required: true
  choose:
    description: Node for which a repair is selected.
    type: dict
    suboptions:
      node: {description: The entry of the node in RV(plan)., type: dict, required: true}
      note: {description: "Note of the health check, whose first line is the severity.", type: path, required: true}
      program: {description: Path of the health check., type: path, required: true}
      allowed:
        description: Most intrusive repair that may be selected.
        type: str
        choices: [none, reset, reboot]
        required: true
      limit: {description: Maximum number of repairs per node in seven days., type: int, required: true}
  records:
    description: >-
      Records with C(node), C(event) (C(began), C(repaired), C(failed) or C(isolated)), C(how) (C(reset) or C(reboot))
      and C(reason). The time is added.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Record that a repair begins
  busbar.cluster.node_repair:
    records:
      - {node: gpu3, event: began, how: reboot, reason: "busbar health: GPU 2 is lost"}
"""

RETURN = r"""
plan:
  description:
    - C(problems), C(nodes) and C(skipped). Each node has C(reason), C(repairs) of the last seven days, C(severity) of
      an interrupted or failed repair, and C(goes_on).
  returned: with O(plan)
  type: dict
do:
  description: One of V(reset), V(reboot), V(isolate) and V(skip).
  returned: with O(choose)
  type: str
why:
  description: Reason for the choice.
  returned: with O(choose)
  type: str
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.health.repairs import Record, bounded, choose, lines_of, read_records, repair_plan
from ..module_utils.slurm.hostlist import expand_hosts
from ..module_utils.slurm.local_node import ask_slurm

HISTORY = Path("/var/lib/busbar/repairs.jsonl")
NODES = ["sinfo", "-h", "-N", "-a", "-o", "%N|%T|%E"]
JOBS = ["squeue", "-h", "-a", "-t", "R,CF,CG,S,SO,SI,ST", "-o", "%i|%u|%N"]
NAMES: dict[str, Any] = {"type": "list", "elements": "str", "required": True}
PLAN = {"requested": {"type": "raw"}, "compute": NAMES, "limited": NAMES}
CHOICE = {
    "node": {"type": "dict", "required": True},
    "note": {"type": "path", "required": True},
    "program": {"type": "path", "required": True},
    "allowed": {"type": "str", "choices": ["none", "reset", "reboot"], "required": True},
    "limit": {"type": "int", "required": True},
}


def text_of(path: Path) -> str:
    """Return the text of a file, or '' if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def planned(module: AnsibleModule, history: Path) -> dict[str, Any]:
    """Return which nodes may be repaired."""
    given = module.params["plan"]
    requested = given["requested"] or ""
    try:
        folded = requested if isinstance(requested, str) else ",".join(map(str, requested))
        wanted = list(dict.fromkeys(expand_hosts(folded)))
    except ValueError as error:
        return {"problems": [f"repair_nodes: {error}"]}
    seen = {"nodes": ask_slurm(module, NODES), "queue": ask_slurm(module, JOBS)}
    return repair_plan(wanted, given, seen, text_of(history), time.time())


def chosen(module: AnsibleModule) -> dict[str, str]:
    """Return the repair of the node and its reason."""
    given = module.params["choose"]
    # Without a health check, the choice depends only on the note.
    can_look = os.access(given["program"], os.X_OK)
    look = module.run_command([given["program"], "--look", "--json"])[1] if can_look else ""
    return choose(given["node"], text_of(Path(given["note"])), look, given["allowed"], given["limit"])


def added(path: Path, new: list[Record], now: float) -> None:
    """Add records to the file atomically, under a lock.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = read_records(path.read_text(encoding="utf-8")) if path.exists() else []
        text = lines_of(bounded([*before, *new], now))
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o644)
        fresh.replace(path)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "options": PLAN},
            "choose": {"type": "dict", "options": CHOICE},
            "records": {"type": "list", "elements": "dict"},
        },
        required_one_of=[("plan", "choose", "records")],
        mutually_exclusive=[("plan", "choose", "records")],
        supports_check_mode=True,
    )
    now = time.time()
    if module.params["plan"]:
        module.exit_json(changed=False, plan=planned(module, HISTORY))
    if module.params["choose"]:
        module.exit_json(changed=False, **chosen(module))
    try:
        new = [Record(now, **{key: str(value) for key, value in each.items()}) for each in module.params["records"]]
        if not module.check_mode:
            added(HISTORY, new, now)
    except (OSError, TypeError) as error:
        module.fail_json(msg=f"{HISTORY}: {error}")
    module.exit_json(changed=bool(new))


if __name__ == "__main__":
    main()
