"""Filter that says which host starts a MariaDB cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: galera_plan
author: busbar contributors
short_description: Which host starts a MariaDB cluster
description:
  - A cluster is started only where all its hosts were asked, none has a majority, and one is known to have all data.
  - Everything else is a join, which fails where there is nothing to join.
options:
  _input:
    description: Names of the hosts, in order.
    type: list
    elements: str
    required: true
  members:
    description: Host to what M(busbar.cluster.galera_member) says of it, for the hosts of this run.
    type: dict
    required: true
  convert:
    description: Whether a database becomes the first of a cluster although no snapshot of it is new.
    type: bool
    default: false
"""

EXAMPLES = r"""
plan: "{{ ['db1', 'db2', 'db3'] | busbar.cluster.galera_plan(members) }}"
"""

RETURN = r"""
_value:
  description: C(first), the host that starts the cluster, empty for none, and C(problems) for M(busbar.cluster.refuse).
  type: dict
"""

from ..module_utils.slurm.galera import cluster_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.galera_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"galera_plan": border(cluster_plan)}
