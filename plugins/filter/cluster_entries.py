"""Filter that returns names and addresses of hosts from the inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_entries
author: busbar contributors (!UNKNOWN)
short_description: Names and addresses of hosts from the inventory
description:
  - The address of a host is its C(hosts_address), else its C(ansible_host), else its name, if that is an IP address.
  - Additional names of a host come from C(hosts_aliases).
  - The SSH port is C(ssh_port), else C(ansible_port), else 22.
options:
  _input:
    description: Hosts of the inventory.
    type: list
    elements: str
    required: true
  variables:
    description: The variable C(hostvars).
    type: dict
    required: true
  domain:
    description: Domain of the hosts. The first name of each host is its name in this domain.
    type: str
    default: ''
"""

EXAMPLES = r"""
entries: "{{ groups['all'] | busbar.cluster.cluster_entries(hostvars, domain='cluster.example') }}"
"""

RETURN = r"""
_value:
  description:
    - C(name), C(target) (the address that Ansible connects to), C(address) (empty if the inventory has none), C(names),
      C(port) of SSH, and C(known_as), the names of the host in known_hosts.
  type: list
  elements: dict
"""

from ..module_utils.storage.hosts_table import cluster_entries
from ..plugin_utils.ansible_errors import filter_module

FilterModule = filter_module("cluster_entries", cluster_entries)
