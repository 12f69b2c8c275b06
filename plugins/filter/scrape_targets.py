"""Filter that returns Prometheus's target files."""

from __future__ import annotations

DOCUMENTATION = r"""
name: scrape_targets
author: busbar contributors (!UNKNOWN)
short_description: Prometheus targets from the inventory
description: Generates the target files of Prometheus from the inventory.
positional: hostvars, catalogue
options:
  _input:
    description:
      - Jobs by name, each with C(hosts), C(exporter) and C(port), and optionally C(address), C(gpus), C(source) and
        C(source_default).
    type: dict
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  catalogue:
    description: Known hardware profiles by name.
    type: dict
    required: true
"""

EXAMPLES = r"""
files: "{{ monitoring_jobs | busbar.cluster.scrape_targets(hostvars, known) }}"
"""

RETURN = r"""
_value:
  description: The file of each job, as entries for M(busbar.cluster.templates).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.monitoring.scrape_targets import scrape_targets, targets_text

if TYPE_CHECKING:
    from collections.abc import Mapping


FOLDER = "/etc/prometheus/targets"


def files(
    jobs: Mapping[str, Mapping[str, Any]],
    hostvars: Mapping[str, Mapping[str, Any]],
    catalogue: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, str]]:
    """Return the path and content of each job's target file."""
    listed = scrape_targets(jobs, hostvars, catalogue)
    return [{"path": f"{FOLDER}/{name}.yml", "content": targets_text(each)} for name, each in listed.items()]


FilterModule = filter_module("scrape_targets", files, hint="a job needs hosts, exporter and port")
