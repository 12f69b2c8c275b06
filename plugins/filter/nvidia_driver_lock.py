"""Filter over the pure functions of the cluster's driver lock."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvidia_driver_lock
author: busbar contributors
short_description: Which version of the NVIDIA driver the whole cluster has
description:
  - Chooses for each branch of the driver the version that all hosts of a run can have with all of its parts. What is
    written down already stays.
options:
  _input:
    description: Names of the hosts of the run.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  answer:
    description: >-
      Name of the variable with what a host can have, C(offer) of M(busbar.cluster.nvidia_driver).
    type: str
    required: true
  locked:
    description: What is in the file, as YAML was read from it; empty where there is none.
    type: raw
    required: true
  path:
    description: The file, for what is said of it.
    type: str
    required: true
  elsewhere:
    description: >-
      C(installed), the version of the driver that a host outside of this run has, and C(known), whether it answered.
      Without it there are no such hosts.
    type: dict
  upgrade:
    description: Whether the newest version is chosen anew.
    type: bool
    default: false
"""

EXAMPLES = r"""
lock: "{{ ansible_play_hosts | busbar.cluster.nvidia_driver_lock(hostvars, 'offer', {}, 'driver.lock.yml') }}"
"""

RETURN = r"""
_value:
  description: >-
    C(versions) by branch, the C(text) of the file, C(renewed) when it is to be written, and C(problems), each with
    C(hosts), C(key), C(problem), C(remedy).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.border import Filters, border
from ..plugin_utils.nvidia.driver_lock import DriverLock, choose_lock, parse_lock

if TYPE_CHECKING:
    from collections.abc import Mapping


def lock(  # noqa: PLR0913, PLR0917 - a filter's arguments
    hosts: list[str],
    hostvars: Mapping[str, Mapping[str, Any]],
    answer: str,
    locked: object,
    path: str,
    elsewhere: Mapping[str, Any] | None = None,
    *,
    upgrade: bool = False,
) -> DriverLock:
    """Return the lock."""
    offers = {host: hostvars[host][answer] for host in hosts if hostvars[host].get(answer)}
    return choose_lock(offers, parse_lock(locked, path), elsewhere=elsewhere, upgrade=upgrade)


class FilterModule:
    """The filter `busbar.cluster.nvidia_driver_lock`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nvidia_driver_lock": border(lock)}
