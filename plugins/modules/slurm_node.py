"""Module that asks Slurm for nodes: whether one may be taken out of service, its jobs, and who is not ready."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
author: busbar contributors
short_description: Ask Slurm how it has a node, which jobs run on nodes, or which nodes are not ready
description:
  - Runs on a host that reaches slurmctld. It changes nothing.
  - That Slurm does not answer is an answer, too, since a cluster that is only being made has none.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  node:
    description: Name of the node, for its state.
    type: str
  daemons:
    description: Which of slurmd and slurmstepd run on the node itself.
    type: list
    elements: str
    default: []
  members:
    description: Names of nodes, for the jobs that run on any of them.
    type: list
    elements: str
  wanted:
    description: Names of nodes, for those of them that cannot run jobs although nobody took them out on purpose.
    type: list
    elements: str
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
  description: Whether Slurm has the node.
  returned: with O(node)
  type: bool
drain:
  description: Whether it is in service, and so is to be drained.
  returned: with O(node)
  type: bool
ours:
  description: Whether it is to be resumed when all is well; what an admin has drained stays so.
  returned: with O(node)
  type: bool
answers:
  description: Whether its slurmd answers.
  returned: with O(node)
  type: bool
unknown:
  description: Why nobody can say whether it has jobs.
  returned: with O(node)
  type: str
jobs:
  description: The jobs on O(members), each with its nodes.
  returned: with O(members)
  type: list
  elements: str
unready:
  description: The nodes of O(wanted) that are not ready, each with its state and reason.
  returned: with O(wanted)
  type: list
  elements: str
fault:
  description: Why Slurm did not answer.
  returned: with O(members) or O(wanted)
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.change import unready_nodes
from ..module_utils.slurm.driver_drain import jobs_of_rack, node_service, unknown_jobs


def ask(module: AnsibleModule, command: list[str]) -> dict[str, Any]:
    """Return the answer of a command; one that is missing is an answer as well."""
    try:
        status, out, err = module.run_command(command, handle_exceptions=False)
    except OSError as exc:
        return {"rc": exc.errno or 1, "stdout": "", "stderr": "", "msg": str(exc)}
    return {"rc": status, "stdout": out, "stderr": err, "msg": "non-zero return code"}


def fault_of(answer: dict[str, Any]) -> str:
    """Return why a command failed; '' when it did not."""
    return "" if answer["rc"] == 0 else str(answer["stderr"] or answer["msg"]).strip()


def node_state(module: AnsibleModule, node: str, daemons: list[str]) -> dict[str, Any]:
    """Return how Slurm has a node, and whether its jobs are known."""
    answer = ask(module, ["sinfo", "-h", "-N", "-n", node, "-o", "%N|%T|%E"])
    return {**node_service(node, answer["stdout"]), "unknown": unknown_jobs(node, answer, daemons)}


def jobs_on(module: AnsibleModule, members: list[str]) -> dict[str, Any]:
    """Return the jobs on nodes, in all states in which a job has some."""
    answer = ask(module, ["squeue", "-h", "-t", "R,CF,CG,S,SO", "-o", "%N|job %i of %u"])
    return {"jobs": jobs_of_rack(answer["stdout"], members), "fault": fault_of(answer)}


def not_ready(module: AnsibleModule, wanted: list[str]) -> dict[str, Any]:
    """Return the nodes that are not ready; all of them when Slurm does not answer."""
    answer = ask(module, ["sinfo", "-h", "-N", "-o", "%N|%T|%u|%E"])
    return {"unready": unready_nodes(answer["stdout"], wanted), "fault": fault_of(answer)}


def main() -> None:
    """Run the module."""
    names = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str"},
            "daemons": {**names, "default": []},
            "members": names,
            "wanted": names,
        },
        required_one_of=[("node", "members", "wanted")],
        mutually_exclusive=[("node", "members", "wanted")],
        supports_check_mode=True,
    )
    node, daemons, members, wanted = (module.params[key] for key in ("node", "daemons", "members", "wanted"))
    if node:
        found = node_state(module, node, daemons)
    elif members is not None:
        found = jobs_on(module, members)
    else:
        found = not_ready(module, wanted)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
