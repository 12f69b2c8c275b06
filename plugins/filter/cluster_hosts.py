"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_hosts
author: busbar contributors
short_description: Hosts without the provisioning host itself
description:
  - The names as they are, in their order, but for V(localhost) and V(127.0.0.1).
  - Ansible works out the defaults of a role on each host. C(reject) and C(list) give the same, but call a test of
    Ansible for each name, which takes more than three times as long.
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
__hosts_cluster: "{{ groups['all'] | busbar.cluster.cluster_hosts }}"
"""

RETURN = r"""
_value:
  description: The names.
  type: list
  elements: str
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.engine.common.hostlist import cluster_hosts


class FilterModule:
    """The filter `busbar.cluster.cluster_hosts`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"cluster_hosts": border(cluster_hosts)}
