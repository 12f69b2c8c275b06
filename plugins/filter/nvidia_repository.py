"""Filter that says where a package repository of NVIDIA lies and which key signs it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvidia_repository
author: busbar contributors
short_description: Where a package repository of NVIDIA lies for a host
description: Where a package repository of NVIDIA lies for a host.
positional: name, system, host
options:
  _input:
    description:
      - What is declared, as the options of the role C(nvidia_repository) without its name; empty values mean NVIDIA's.
    type: dict
    required: true
  name:
    description: C(cuda), C(libnvidia-container), C(doca) or a name of the site's own.
    type: str
    required: true
  system:
    description: The host's C(distribution), C(version), C(major), C(family) and C(architecture).
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
repository: "{{ {'urls': {'cuda': 'http://mirror/cuda'}} | busbar.cluster.nvidia_repository('cuda', system, 'gpu1') }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems) is a list as the filter C(problem_report) takes it; when it is not empty nothing else counts.
    - The other keys are the options of the module C(package_repository), and C(key_file).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.repositories import Repository, System, nvidia_repository
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def repository(declared: Mapping[str, Any], name: str, system: System, host: str) -> Repository:
    """Return the repository for a host."""
    return nvidia_repository(name, system, declared, host)


class FilterModule:
    """The filter `busbar.cluster.nvidia_repository`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nvidia_repository": border(repository)}
