"""Checks the options of the role security_updates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")


def check(options: Mapping[str, Any], _: Mapping[str, Any]) -> list[Problem]:
    """Return a negative delay, and names that no package begins with."""
    found = []
    if int(options.get("spread_s", 0)) < 0:
        remedy = "give seconds, 0 for all hosts at once"
        found.append(make_problem([], "security_updates_spread_s", f"{options['spread_s']} is below 0", remedy))
    wrong = [str(each) for each in options.get("exclude", []) if not _PACKAGE.fullmatch(str(each))]
    if wrong:
        remedy = "give the beginning of names of packages, without patterns, such as mariadb-"
        problem = f"{', '.join(wrong)}: no package begins so"
        found.append(make_problem([], "security_updates_exclude", problem, remedy))
    return found
