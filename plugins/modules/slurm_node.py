"""Module that queries nodes in Slurm: state, jobs, unready nodes and history."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
author: busbar contributors (!UNKNOWN)
short_description: Return the state, the jobs and the history of nodes in Slurm
description:
  - Must run on a host that reaches slurmctld. Changes nothing.
  - Does not fail if Slurm does not answer, because Slurm is not running yet on a new cluster.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  node:
    description: Name of the node whose state is returned.
    type: str
  daemons:
    description: Which of slurmd and slurmstepd run on the node.
    type: list
    elements: str
    default: []
  members:
    description: Names of nodes whose running jobs are returned.
    type: list
    elements: str
  wanted:
    description: Names of nodes to check. Those that cannot run jobs are returned, except those that an administrator
      drained.
    type: list
    elements: str
  history:
    description:
      - Names of nodes whose times out of service and failed jobs are returned, at most 200 of each. An empty list means
        all nodes, and only jobs that failed because of a node.
    type: list
    elements: str
  days:
    description: Number of past days whose history is returned.
    type: int
    default: 28
"""

EXAMPLES = r"""
- name: Read the node's state in Slurm
  busbar.cluster.slurm_node:
    node: gpu3
    daemons: [slurmd]
  delegate_to: ctl
  register: __example_node
"""

RETURN = r"""
known:
  description: Whether Slurm has a node of this name.
  returned: with O(node)
  type: bool
drain:
  description: Whether the node is in service and must be drained.
  returned: with O(node)
  type: bool
ours:
  description: Whether to resume the node at the end. A node that an administrator drained stays drained.
  returned: with O(node)
  type: bool
answers:
  description: Whether the node's slurmd answers.
  returned: with O(node)
  type: bool
unknown:
  description: Reason why the jobs of the node are unknown.
  returned: with O(node)
  type: str
jobs:
  description: Jobs on O(members), each with its nodes.
  returned: with O(members)
  type: list
  elements: str
unready:
  description: Nodes of O(wanted) that are not ready, each with state and reason.
  returned: with O(wanted)
  type: list
  elements: str
fault:
  description: Reason why Slurm did not answer.
  returned: with O(members) or O(wanted)
  type: str
history:
  description: States, times out of service and failed jobs of nodes.
  returned: with O(history)
  type: dict
  contains:
    asked: {description: "Time of the query, in seconds since 1970.", type: int}
    nodes: {description: State of each node by name., type: dict}
    events: {description: "Times out of service, oldest first. Empty if unknown.", type: list}
    jobs: {description: "Failed jobs, oldest first. Empty if unknown.", type: list}
    problems: {description: Failed queries with the reason., type: dict}
"""

import time
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.config_change import unready_nodes
from ..module_utils.slurm.driver_drain import jobs_of_rack, node_service, unknown_jobs
from ..module_utils.slurm.node_events import (
    EVENTS,
    FAILED_JOBS,
    NODE_FAILURES,
    NODES,
    TIMES,
    failed_jobs,
    node_events,
    nodes_now,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PATIENCE_S = 60
DAY_S = 86400
# Includes failures that may be the job's fault, because a faulty node can also cause them.
ALL_FAILURES = (*NODE_FAILURES, "FAILED", "OUT_OF_MEMORY")
MOST = 200


def ask(module: AnsibleModule, command: list[str]) -> dict[str, Any]:
    """Return the result of a command; a missing command gives a failed result."""
    try:
        status, out, err = module.run_command(command, handle_exceptions=False)
    except OSError as exc:
        return {"rc": exc.errno or 1, "stdout": "", "stderr": "", "msg": str(exc)}
    return {"rc": status, "stdout": out, "stderr": err, "msg": "non-zero return code"}


def fault_of(answer: dict[str, Any]) -> str:
    """Return why a command failed, or '' if it succeeded."""
    return "" if answer["rc"] == 0 else str(answer["stderr"] or answer["msg"]).strip()


def node_state(module: AnsibleModule, node: str, daemons: list[str]) -> dict[str, Any]:
    """Return a node's state in Slurm, and whether its jobs are known."""
    answer = ask(module, ["sinfo", "-h", "-N", "-n", node, "-o", "%N|%T|%E"])
    return {**node_service(node, answer["stdout"]), "unknown": unknown_jobs(node, answer, daemons)}


def jobs_on(module: AnsibleModule, members: list[str]) -> dict[str, Any]:
    """Return the jobs that hold nodes, in any state."""
    answer = ask(module, ["squeue", "-h", "-t", "R,CF,CG,S,SO", "-o", "%N|job %i of %u"])
    return {"jobs": jobs_of_rack(answer["stdout"], members), "fault": fault_of(answer)}


def not_ready(module: AnsibleModule, wanted: list[str]) -> dict[str, Any]:
    """Return the nodes that are not ready; all nodes if Slurm does not answer."""
    answer = ask(module, ["sinfo", "-h", "-N", "-o", "%N|%T|%u|%E"])
    return {"unready": unready_nodes(answer["stdout"], wanted), "fault": fault_of(answer)}


def answer_of(module: AnsibleModule, words: Sequence[str]) -> str:
    """Return the output of a Slurm command.

    Raises:
        ValueError: the command is missing, fails or times out.
    """
    program = module.get_bin_path(words[0])
    if program is None:
        message = f"{words[0]} is not installed"
        raise ValueError(message)
    command = ["timeout", str(PATIENCE_S), program, *words[1:]]
    status, out, err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8", "TZ": "UTC", **TIMES})
    if status != 0:
        output = " ".join((err or out or f"no answer within {PATIENCE_S} s").split())[:300]
        message = f"`{words[0]}` failed: {output}"
        raise ValueError(message)
    # Without accounting sacct prints an error but may still exit with 0.
    if not out.strip() and err.strip():
        raise ValueError(" ".join(err.split())[:300])
    return str(out)


def history(module: AnsibleModule) -> dict[str, Any]:
    """Return the states, out-of-service times and failed jobs of nodes."""
    wanted, now = module.params["history"] or None, int(time.time())
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now - module.params["days"] * DAY_S))
    states = ALL_FAILURES if wanted else NODE_FAILURES
    selected = [f"--nodelist={','.join(wanted)}"] if wanted else []
    of_nodes = [f"nodes={','.join(wanted)}"] if wanted else []
    jobs = [*FAILED_JOBS, f"--starttime={since}", "--endtime=now", f"--state={','.join(states)}", *selected]
    questions: dict[str, tuple[list[str], Callable[[str], Any]]] = {
        "nodes": ([*NODES], nodes_now),
        "events": ([*EVENTS, f"start={since}", *of_nodes], lambda text: node_events(text, wanted)),
        "jobs": (jobs, lambda text: failed_jobs(text, wanted)),
    }
    found: dict[str, Any] = {"asked": now, "problems": {}}
    for name, (words, read) in questions.items():
        try:
            found[name] = read(answer_of(module, words))
        except ValueError as exc:
            found[name] = {} if name == "nodes" else None
            found["problems"][name] = str(exc)
    for name in ("events", "jobs"):
        if wanted and found[name] is not None:
            found[name] = found[name][-MOST:]
    return found


def main() -> None:
    """Run the module."""
    names = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str"},
            "daemons": {**names, "default": []},
            "members": names,
            "wanted": names,
            "history": names,
            "days": {"type": "int", "default": 28},
        },
        required_one_of=[("node", "members", "wanted", "history")],
        mutually_exclusive=[("node", "members", "wanted", "history")],
        supports_check_mode=True,
    )
    node, daemons, members, wanted = (module.params[key] for key in ("node", "daemons", "members", "wanted"))
    if node:
        found = node_state(module, node, daemons)
    elif members is not None:
        found = jobs_on(module, members)
    elif wanted is not None:
        found = not_ready(module, wanted)
    else:
        found = {"history": history(module)}
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
