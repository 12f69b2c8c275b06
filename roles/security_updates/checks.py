"""Checks the options of the security_updates role."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the delay and the package name prefixes."""
    found = []
    if int(options.get("spread_s", 0)) < 0:
        remedy = "set seconds, or 0 to start all hosts at the same time"
        found.append(make_problem([], "security_updates_spread_s", f"{options['spread_s']} is below 0", remedy))
    wrong = [str(each) for each in options.get("exclude", []) if not _PACKAGE.fullmatch(str(each))]
    if wrong:
        remedy = "set prefixes of package names without wildcards, such as mariadb-"
        problem = f"contains invalid prefixes of package names ({', '.join(wrong)})"
        found.append(make_problem([], "security_updates_exclude", problem, remedy))
    return found
