"""Filter over the pure function node_service."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_node_service
author: busbar contributors
short_description: How Slurm has a node, and whose drain it is
description: How Slurm has a node, and whose drain it is.
options:
  _input:
    description: Output of C(sinfo -h -N -o '%N|%T|%E').
    type: str
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
  answer:
    description: Result of the command that printed it, with C(rc), C(stderr) and C(msg). Without it, it went well.
    type: dict
  daemons:
    description: Which of C(slurmd) and C(slurmstepd) run on the node itself.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
service: "{{ shown.stdout | busbar.cluster.slurm_node_service(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - C(known) to Slurm; C(drain) when it is in service and so has to be drained; C(answers); C(state); C(reason).
    - C(unknown) says why nobody can tell whether it has jobs, and is empty when Slurm can.
    - C(ours) when it is to be resumed in the end, which a node is not that somebody else took out of service.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.slurm.driver_drain import node_service, unknown_jobs
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def service(
    text: str, node: str, answer: Mapping[str, Any] | None = None, daemons: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how Slurm has the node."""
    said = {"rc": 0, "stdout": text} if answer is None else answer
    return {**node_service(node, text), "unknown": unknown_jobs(node, said, daemons)}


class FilterModule:
    """The filter `busbar.cluster.slurm_node_service`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_node_service": border(service)}
