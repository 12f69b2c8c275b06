"""Checks the options of the node_health role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.plugin_utils.common.near_names import near_name
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator


# Health checks that `node_health_severities` may name.
CHECK_NAMES = (
    *("gpu_count", "gpu", "gpu_clocks", "gpu_links", "pcie_replays", "nvlink_crc", "dcgm", "fabric_manager", "xid"),
    *("nics", "link_flaps", "infiniband_errors", "disk", "mounts", "memory", "swap", "memory_errors", "clock"),
    *("services", "kernel", "stray_processes"),
)
_SEVERITIES = ("ISOLATE", "RESET", "MONITOR", "OFF", False)
# Maximum of each numeric option; the values must be above 0.
_LIMITS = {
    **dict.fromkeys(("clock_offset_s", "infiniband_errors", "link_flaps", "nvlink_crc_per_second"), None),
    **dict.fromkeys(("pcie_replays_per_minute", "repair_limit", "timeout_s"), None),
    "drain_percent": 100,
    "link_flaps_hours": 168,
}


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return unknown checks and severities, and limits that are out of range."""
    faults = [*_severities(options.get("severities") or {}), *_limits(options)]
    return [make_problem([cluster.get("host", "")], f"node_health_{key}", *rest) for key, *rest in faults]


def _severities(severities: Known) -> Iterator[tuple[str, str, str]]:
    for name, severity in severities.items():
        if name not in CHECK_NAMES:
            near = near_name(str(name), CHECK_NAMES)
            meant = f"did you mean {near}? " if near else ""
            yield f"severities.{name}", "is not a known check", f"{meant}use one of {', '.join(CHECK_NAMES)}"
        elif severity not in _SEVERITIES:
            yield f"severities.{name}", f"{severity!r} is not a severity", "set ISOLATE, RESET, MONITOR or OFF"


def _limits(options: Known) -> Iterator[tuple[str, str, str]]:
    for name, most in _LIMITS.items():
        if name in options and not 0 < float(options[name]) <= (most or float("inf")):
            remedy = f"set a number above 0{f' and at most {most}' if most else ''}"
            yield name, f"{options[name]} is out of bounds", remedy
