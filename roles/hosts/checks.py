"""Checks the options of the hosts role."""

from __future__ import annotations

import re
import zoneinfo

from ...plugins.plugin_utils.common.near_names import near_name
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

_DOMAIN = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the time zone and the domain."""
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
    return found
