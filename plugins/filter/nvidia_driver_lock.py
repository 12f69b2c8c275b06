"""Filter that chooses the driver version of the cluster's lock file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvidia_driver_lock
author: busbar contributors (!UNKNOWN)
short_description: Choose one NVIDIA driver version for the cluster
description:
  - Chooses for each driver branch a version that all hosts of the run can install with all related packages. Keeps the
    versions in the lock file unless O(upgrade) is set.
options:
  _input:
    description: Hosts of the run.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  answer:
    description: >-
      Name of the variable with the versions available to a host, C(offer) of M(busbar.cluster.nvidia_driver).
    type: str
    required: true
  locked:
    description: Loaded YAML of the lock file; empty without a file.
    type: raw
    required: true
  path:
    description: Path of the lock file, for messages.
    type: str
    required: true
  elsewhere:
    description: >-
      C(installed), the driver version of a host outside of this run, and C(known), whether that host answered. Omit it
      if the run includes all hosts.
    type: dict
  upgrade:
    description: Whether to replace locked versions with the newest available version.
    type: bool
    default: false
"""

EXAMPLES = r"""
lock: "{{ ansible_play_hosts | busbar.cluster.nvidia_driver_lock(hostvars, 'offer', {}, 'driver.lock.yml') }}"
"""

RETURN = r"""
_value:
  description: >-
    C(versions) by branch; C(text), the content of the lock file; C(renewed), whether to write it; and C(problems), each
    with C(hosts), C(key), C(problem), C(remedy).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.ansible_errors import filter_module
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
    """Return the driver lock for the hosts."""
    offers = {host: hostvars[host][answer] for host in hosts if hostvars[host].get(answer)}
    return choose_lock(offers, parse_lock(locked, path), elsewhere=elsewhere, upgrade=upgrade)


FilterModule = filter_module("nvidia_driver_lock", lock)
