"""Filter that writes a command for a unit of systemd."""

from __future__ import annotations

DOCUMENTATION = r"""
name: exec_start
author: busbar contributors
short_description: A command for ExecStart= of a unit
description: A command for ExecStart= of a unit.
options:
  _input:
    description: Program and arguments.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
line: "ExecStart={{ ['/usr/bin/prometheus', '--log.level=info'] | busbar.cluster.exec_start }}"
"""

RETURN = r"""
_value:
  description: The command, escaped, one word on each line.
  type: str
"""

from ..module_utils.common.systemd import exec_start
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.exec_start`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"exec_start": border(exec_start)}
