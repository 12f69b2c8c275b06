"""Filter that writes the lines of a configuration file of Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_lines
author: busbar contributors
short_description: Lines of a configuration file of Slurm
description: Puts the site's keys in place of the role's own, whatever their case, and writes C(Key=value) lines.
options:
  _input:
    description: The role's own keys.
    type: dict
    required: true
  site:
    description: The site's keys; null leaves a key out.
    type: dict
    required: true
"""

EXAMPLES = r"""
lines: "{{ {'ConstrainCores': true} | busbar.cluster.slurm_lines({'constraincores': false}) }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.border import Filters, border
from ..plugin_utils.slurm.conf import config_lines, merge_config

if TYPE_CHECKING:
    from collections.abc import Mapping


def lines(own: Mapping[str, Any], site: Mapping[str, Any]) -> list[str]:
    """Return the lines."""
    return config_lines(merge_config(own, site))


class FilterModule:
    """The filter `busbar.cluster.slurm_lines`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_lines": border(lines)}
