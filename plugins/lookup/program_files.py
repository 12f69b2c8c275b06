"""Lookup of the files of a program that a role installs on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: program_files
author: busbar contributors
short_description: The files of a program that is made of the collection's own modules
description:
  - Returns the modules of module_utils that are named, and all modules that they import, ready for
    M(busbar.cluster.templates).
  - So a program that runs on a node is made of the very parts that preflight and the filters use.
options:
  _terms:
    description: Modules of module_utils, such as V(slurm.collect).
    required: true
    type: list
    elements: str
  directory:
    description: The folder on the node that the paths begin with; it keeps the packages of module_utils.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Install the collector of Slurm's metrics
  busbar.cluster.templates:
    more: "{{ query('busbar.cluster.program_files', 'slurm.collect', directory='/usr/local/lib/busbar/metrics') }}"
"""

RETURN = r"""
_raw:
  description: One entry per file, with its C(path) on the node and its C(content).
  type: list
  elements: dict
"""

from typing import Any

from ansible.plugins.lookup import LookupBase

from ..plugin_utils.border import lookup_border
from ..plugin_utils.program_files import program_files


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.program_files`."""

    @lookup_border
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, str]]:
        """Return one entry per file."""
        self.set_options(var_options=variables, direct=kwargs)
        directory = self.get_option("directory")
        texts = program_files(terms)
        return [{"path": f"{directory}/{path}", "content": text} for path, text in texts.items()]
