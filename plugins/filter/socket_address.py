"""Filter that writes address and port."""

from __future__ import annotations

DOCUMENTATION = r"""
name: socket_address
author: busbar contributors
short_description: Address and port as daemons and Prometheus write them
description: Address and port as daemons and Prometheus write them.
positional: port
options:
  _input:
    description: The address.
    type: str
    required: true
  port:
    description: The port.
    type: int
    required: true
"""

EXAMPLES = r"""
listen: "{{ '::1' | busbar.cluster.socket_address(9090) }}"  # [::1]:9090
"""

RETURN = r"""
_value:
  description: Address and port, an address of IPv6 in brackets.
  type: str
"""

from ..module_utils.monitoring.scrape_targets import socket_address
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.socket_address`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"socket_address": border(socket_address)}
