"""Module that asks Slurm and its accounting what they know of nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node_history
author: busbar contributors
short_description: States of nodes, their times out of service, and the jobs that failed there
description:
  - Asks C(scontrol), C(sacctmgr) and C(sacct) once each, however many nodes there are. Runs on the controller.
  - What does not answer, or is not there, is named in C(problems), and no failure.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  nodes:
    description: Names of nodes; without any, all are asked for, and only the jobs that failed because of a node.
    type: list
    elements: str
    default: []
  days:
    description: How many days to look back.
    type: int
    default: 28
  most:
    description: How many events and jobs of named nodes are returned at most, the last ones.
    type: int
    default: 200
"""

EXAMPLES = r"""
- name: Ask what Slurm knows of a node
  busbar.cluster.slurm_node_history:
    nodes: [gpu3]
  register: __example_history
"""

RETURN = r"""
history:
  description: What was found.
  returned: always
  type: dict
  contains:
    asked: {description: "When, seconds since 1970.", type: int}
    nodes: {description: State of each node by name., type: dict}
    events: {description: "Times out of service, the oldest first; none when they are not known.", type: list}
    jobs: {description: "Jobs that failed, the oldest first; none when they are not known.", type: list}
    problems: {description: What could not be asked and why., type: dict}
"""

import time
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.node_history import (
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
# Those of the job's own making, too: a node that breaks some jobs in odd ways is seen by them.
ALL_FAILURES = (*NODE_FAILURES, "FAILED", "OUT_OF_MEMORY")


def ask(module: AnsibleModule, words: Sequence[str]) -> str:
    """Return what a command of Slurm prints.

    Raises:
        ValueError: it is not there, fails or does not answer.
    """
    program = module.get_bin_path(words[0])
    if program is None:
        message = f"{words[0]} is not installed"
        raise ValueError(message)
    command = ["timeout", str(PATIENCE_S), program, *words[1:]]
    status, out, err = module.run_command(command, environ_update={"LC_ALL": "C.UTF-8", "TZ": "UTC", **TIMES})
    if status != 0:
        said = " ".join((err or out or f"no answer within {PATIENCE_S} s").split())[:300]
        message = f"`{words[0]}` fails: {said}"
        raise ValueError(message)
    # Without accounting sacct says so on standard error and may still end well.
    if not out.strip() and err.strip():
        raise ValueError(" ".join(err.split())[:300])
    return str(out)


def history(module: AnsibleModule) -> dict[str, Any]:
    """Return what the module's documentation promises."""
    wanted, now = module.params["nodes"] or None, int(time.time())
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
            found[name] = read(ask(module, words))
        except ValueError as exc:
            found[name] = {} if name == "nodes" else None
            found["problems"][name] = str(exc)
    for name in ("events", "jobs"):
        if wanted and found[name] is not None:
            found[name] = found[name][-module.params["most"] :]
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "list", "elements": "str", "default": []},
            "days": {"type": "int", "default": 28},
            "most": {"type": "int", "default": 200},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, history=history(module))


if __name__ == "__main__":
    main()
