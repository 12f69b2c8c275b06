"""Run the option checks of roles (roles/NAME/checks.py) on the values that a site sets.

`check(options, cluster)` returns the problems with options, given by name without the role prefix. The role calls it
with all options and the facts of its host; the preflight calls it with the options that a site sets, with defaults that
are not templates, and with an empty `cluster`. A missing option or fact raises KeyError: the preflight then skips the
check, and the role repeats it.

`INVENTORY` maps names or patterns of options to checks that the preflight calls once, before any host is contacted.
Their `options` are the `SITE_OPTIONS` of all roles by full name, and `cluster` contains all hosts. A check is skipped
if an option that its key matches has a value of the wrong type.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..module_utils.common.problems import Problem, make_problem
from .preflight.options import places_of
from .site_variables import declared_options

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from .preflight.options import Option, Setting

__all__ = ["Known", "Problem", "checks_of", "make_problem", "roles_with_checks", "validity_problems", "value_problems"]

Known: TypeAlias = Mapping[str, Any]
"""Options or facts of a cluster, by name."""

_PACKAGE = f"{__name__.partition('.plugins.')[0]}.roles"
_ROLES = Path(__file__).resolve().parents[2] / "roles"
_MOST_PORT = 65535


def checks_of(role: str) -> ModuleType:
    """Return the module with the checks of a role."""
    return importlib.import_module(f"{_PACKAGE}.{role}.checks")


def roles_with_checks() -> list[str]:
    """Return the names of the roles that have checks."""
    return sorted(path.parent.name for path in _ROLES.glob("*/checks.py"))


def value_problems(settings: Iterable[Setting]) -> list[Problem]:
    """Return the invalid values, each with the place where it is set; templates are skipped."""
    options = declared_options()
    written = [each for each in settings if each.name in options]
    plain = [each for each in written if "{{" not in str(each.value)]
    latest = {each.name: each for each in plain}
    defaults = {name: each.spec["default"] for name, each in options.items() if "default" in each.spec}
    usual = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    computed = {each.name for each in written} - {*latest}
    roles = {
        role: {name: value for name, value in usual.items() if options[name].role == role}
        for role in roles_with_checks()
    }
    set_by_role: dict[str, dict[str, Any]] = {}
    for each in plain:
        set_by_role.setdefault(options[each.name].role, {})[each.name] = each.value
    problems: list[Problem] = []
    for setting in plain:
        role, own = options[setting.name].role, {setting.name: setting.value}
        alone = roles.get(role, {})
        beside = alone | set_by_role[role]
        # The check is also tried without the site's other options, which it may not be able to read.
        found = _role_problems(role, beside | own, alone | own) if role in roles else []
        if all(each["key"] != setting.name for each in found):
            found += _port(setting) + _number(setting, options[setting.name]) + _paths(setting, options[setting.name])
        for problem in found:
            name = re.split(r"[.:\[]", problem["key"])[0]
            # If a missing option is the problem, it is reported only once, for the option that requires it.
            others = beside | {setting.name: defaults.get(setting.name)}
            if name in computed or (name not in {setting.name, *latest} and problem in _role_problems(role, others)):
                continue
            place = setting if name == setting.name else latest.get(name, setting)
            text = f"{problem['problem']}{places_of([place])}"
            located = make_problem([place.host] if place.host else [], problem["key"], text, problem["remedy"])
            problems += [located] if located not in problems else []
    return problems


def validity_problems(name: str, days: object, renew: object) -> list[Problem]:
    """Return the problems with the validity and the renewal of certificates.

    Args:
        name: the option with the validity, such as `tls_days`.
        days: its value.
        renew: days before the expiry from which certificates are renewed, or None.
    """
    valid = int(str(days))
    if valid < 1:
        remedy = "set the days for which a certificate is valid, 1 or more"
        return [make_problem([], name, f"{valid} is below 1", remedy)]
    if renew is not None and int(str(renew)) >= valid:
        problem = f"{renew} is not below {name} ({valid}), so each run would renew all certificates"
        return [make_problem([], name.replace("days", "renew_days"), problem, "set a smaller number")]
    return []


def _port(setting: Setting) -> list[Problem]:
    """Return a problem for a port out of range; wrong types are reported elsewhere."""
    if not setting.name.endswith("_port") or not str(setting.value).lstrip("-").isdecimal():
        return []
    remedy = f"use 1 to {_MOST_PORT}"
    wrong = not 0 < int(setting.value) <= _MOST_PORT
    return [make_problem([], setting.name, f"{setting.value} is out of range", remedy)] if wrong else []


def _number(setting: Setting, option: Option) -> list[Problem]:
    """Return a problem for a negative number, unless the option's default is negative."""
    default = str(option.spec.get("default", 0))
    if option.spec.get("type") not in {"int", "float"} or default.startswith("-") or setting.name.endswith("_port"):
        return []
    try:
        negative = float(setting.value) < 0
    except (TypeError, ValueError):
        return []
    return [make_problem([], setting.name, f"{setting.value} is below 0", "set 0 or more")] if negative else []


def _paths(setting: Setting, option: Option) -> list[Problem]:
    """Return a problem for each relative path in an option whose default is an absolute path, or a list of them."""
    default, value = option.spec.get("default"), setting.value
    if isinstance(value, str):
        value, default = [value], [default]
    absolute = isinstance(value, list) and default and all(str(each).startswith("/") for each in default)
    return [
        make_problem([], setting.name, f"{each!r} is not an absolute path", "use an absolute path")
        for each in (value if absolute else [])
        if isinstance(each, str) and each and not each.startswith("/")
    ]


def _role_problems(role: str, *attempts: Known) -> list[Problem]:
    """Return the problems that a role's check finds, for the first of several sets of options that it can read."""
    for written in attempts:
        options = {name.removeprefix(f"{role}_"): value for name, value in written.items()}
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            found: list[Problem] = checks_of(role).check(options, {})
            return found
    return []
