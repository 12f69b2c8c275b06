"""Checks the options of the hosts role."""

from __future__ import annotations

import ipaddress
import re
import zoneinfo
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.common.near_names import near_name
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DOMAIN = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")

# A leading - means that the kernel may lack the setting.
_SYSCTL = re.compile(r"-?[A-Za-z0-9_-]+([./][A-Za-z0-9_:*-]+)+")


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the time zone, the domain, further host names and kernel settings."""
    found = []
    domain, zone = options.get("domain"), options.get("timezone")
    if domain and not _DOMAIN.fullmatch(str(domain)):
        remedy = "set a domain, such as cluster.example.org"
        found.append(make_problem([], "hosts_domain", f"{domain!r} is not a valid domain", remedy))
    zones = zoneinfo.available_timezones()
    # The provisioning host may lack the time zone database.
    if zones and str(zone or "") not in {"", *zones}:
        near = near_name(str(zone), zones)
        remedy = f"did you mean {near}? " if near else ""
        remedy += (
            "use a name from `timedatectl list-timezones`, such as Europe/Berlin, or '' to keep the current time zone"
        )
        found.append(make_problem([], "hosts_timezone", f"{zone!r} is not a time zone", remedy))
    for number, entry in enumerate(options.get("extra") or []):
        found += _host_problems(f"hosts_extra[{number}]", entry)
    wrong = [name for name in map(str, options.get("sysctl") or {}) if not _SYSCTL.fullmatch(name)]
    remedy = "use names from `sysctl -a`, such as net.core.somaxconn"
    return found + [
        make_problem([], f"hosts_sysctl[{name}]", "is not the name of a kernel setting", remedy) for name in wrong
    ]


def _host_problems(key: str, entry: Mapping[str, Any]) -> Iterable[Problem]:
    """Yield the problems with an address and its names."""
    try:
        ipaddress.ip_address(str(entry["address"]))
    except ValueError:
        yield make_problem([], key, f"{entry['address']!r} is not an IP address", "set the address of the host")
    names = entry["names"]
    wrong = [name for name in map(str, names) if not _DOMAIN.fullmatch(name)]
    if wrong or not names:
        problem = f"{wrong[0]!r} is not a host name" if wrong else "has no name"
        yield make_problem([], key, problem, "set names such as nas or nas.example.org")
