"""Lookup that finds problems in the inventory before any node is contacted."""

from __future__ import annotations

DOCUMENTATION = r"""
name: inventory_checks
author: busbar contributors (!UNKNOWN)
short_description: Find problems in the inventory
description:
  - Checks all hosts of the inventory, even if the run has a limit, and contacts none.
  - Runs the inventory checks of all roles, C(INVENTORY) in roles/NAME/checks.py.
  - Every problem has C(hosts), C(key), C(problem) and C(remedy).
options:
  _terms:
    description: Not used.
    type: list
    elements: str
  cluster:
    description:
      - Input of the checks. Requires C(catalogue), hardware profiles by name, and C(compute), the compute nodes.
        The docstring of each check lists further keys.
      - The inventory's C(groups), C(hostvars) and C(settings) are added.
    type: dict
    required: true
  secrets_dir:
    description: Directory of the secrets.
    type: str
    default: ""
  secrets:
    description: Number of random bytes of each secret, by name.
    type: dict
    default: {}
  allowed_variables:
    description: The site's own variables and groups whose names resemble those of busbar.
    type: list
    elements: str
    default: []
  rotated_secrets:
    description: Names of the secrets to rotate.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Refuse an inventory that contradicts itself
  ansible.builtin.assert:
    that: query('busbar.cluster.inventory_checks', cluster=__example_cluster) == []
"""

RETURN = r"""
_raw:
  description: The problems.
  type: list
  elements: dict
"""

import re
import stat
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.lookup import LookupBase

from ..module_utils.common.problems import Problem, make_problem
from ..plugin_utils.access.held_secrets import rotation_problems
from ..plugin_utils.ansible_errors import BAD_INPUT, reason
from ..plugin_utils.declared_values import DeclaredValues
from ..plugin_utils.preflight.groups import group_problems, limit_problems
from ..plugin_utils.preflight.inventory import (
    GroupValue,
    HostEntry,
    catalogue_problems,
    hardware_choice_problems,
    host_problems,
)
from ..plugin_utils.preflight.options import (
    Option,
    Setting,
    former_problems,
    type_problem,
    type_problems,
    unknown_problems,
)
from ..plugin_utils.preflight.unused_options import unused_options
from ..plugin_utils.role_checks import checks_of, roles_with_checks, value_problems
from ..plugin_utils.secret_store import SecretError, encoded_length, read_secret
from ..plugin_utils.site_variables import SITE_VARIABLES, declared_options, family_names, site_settings, stray_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

VARIABLE = "hardware"
PROFILES = "hardware_profiles_extra"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def secret_problems(directory: str, secrets: Mapping[str, int]) -> list[Problem]:
    """Return the problems with the secrets directory and the existing secrets.

    Args:
        directory: its path; '' skips the check.
        secrets: number of random bytes by name.
    """
    place = Path(directory)
    if not directory or not place.exists():
        return []
    if not place.is_dir():
        return [make_problem([], directory, "is not a directory (expected the secrets directory)", "move it away")]
    problems = []
    if stat.S_IMODE(place.stat().st_mode) & _OTHERS:
        problem = f"is accessible to other users (mode {stat.S_IMODE(place.stat().st_mode):04o})"
        problems.append(make_problem([], directory, problem, f"chmod 0700 {directory}"))
    for name, size in secrets.items():
        try:
            read_secret(place / name, encoded_length(size))
        except FileNotFoundError:
            continue  # generated on first use
        except SecretError as exc:
            problem, _, remedy = str(exc).removeprefix(f"secret {place / name} ").partition(": ")
            problems.append(make_problem([], str(place / name), problem, remedy))
    return problems


def present_secrets(directory: str, names: Iterable[str]) -> list[str]:
    """Return the secrets that exist; none in a directory of another user, which `secret_problems` reports."""
    try:
        return [name for name in names if Path(directory, name).exists()]
    except PermissionError:
        return []


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.inventory_checks`."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[Problem]:
        """Return the problems in the inventory; `terms` are ignored."""
        del terms
        known = variables or {}
        self.set_options(var_options=known, direct=kwargs)
        groups = {name: list(hosts) for name, hosts in known["groups"].items()}
        sources = known["ansible_inventory_sources"]
        # Host variables contain only the effective values; all definitions are in the inventory.
        inventory = InventoryManager(loader=self._loader, sources=list(sources))
        settings = site_settings(inventory, self._loader, sources)
        cluster = dict(self.get_option("cluster").items())
        cluster |= {"groups": groups, "hostvars": known["hostvars"], "settings": settings}
        allowed = self.get_option("allowed_variables")
        declared = DeclaredValues(self._templar, self._loader, known, settings)
        modules = [checks_of(role) for role in roles_with_checks()]
        defaults: dict[str, Any] = {PROFILES: {}}
        for module in modules:
            defaults |= getattr(module, "SITE_OPTIONS", {})
        values = {name: declared.get(name, default) for name, default in defaults.items()}
        problems = group_problems(groups, allowed) + unknown_option_problems(settings, allowed)
        problems += limit_problems(str(known.get("ansible_limit") or ""), groups) + stray_files(inventory, sources)
        wrong = [*declared.unclear, *declared_types(settings, values)]
        # Skip checks that read a value of the wrong type.
        judge = Judge(wrong)
        problems += declared.absent + wrong + value_problems(settings)
        problems += unused_options(settings, groups, declared_options())
        hosts, unclear = self._hosts(known["hostvars"], groups)
        problems += unclear
        hardware, own = hardware_settings(inventory, settings)
        problems += host_problems(hosts)
        if judge.can(f"{VARIABLE}, {PROFILES}"):
            catalogue = cluster["catalogue"]
            problems += hardware_choice_problems(hosts, hardware, own, catalogue, cluster["compute"])
            wrong_profiles = catalogue_problems(hosts, catalogue)
            problems += wrong_profiles
            judge.wrong.update({PROFILES} if wrong_profiles else ())
            # Unknown hardware is reported separately; other checks treat these hosts as hosts without GPUs.
            named: dict[str, Any] = {host["hardware"]: {} for host in hosts if host["hardware"]}
            cluster["catalogue"] = {**named, **catalogue}
        for module in modules:
            for keys, check in getattr(module, "INVENTORY", {}).items():
                problems += judge(keys, partial(check, values, cluster))
        folder, secrets = self.get_option("secrets_dir"), self.get_option("secrets")
        problems += secret_problems(folder, secrets)
        present = present_secrets(folder, secrets)
        return problems + rotation_problems(self.get_option("rotated_secrets"), present, list(secrets), folder)

    def _hosts(self, hostvars: dict[str, Any], groups: dict[str, list[str]]) -> tuple[list[HostEntry], list[Problem]]:
        """Return the entry of each host, and the problems with values that cannot be templated."""
        member: dict[str, list[str]] = {}
        for group, names in groups.items():
            for name in names:
                member.setdefault(name, []).append(group)
        hosts, problems = [], []
        for name in groups.get("all", []):
            values: dict[str, Any] = {}
            for key in ("ansible_host", VARIABLE):
                try:
                    values[key] = hostvars[name].get(key)
                except AnsibleError as exc:
                    problems.append(make_problem([name], key, f"cannot be evaluated: {exc}", "correct its template"))
            hosts.append(
                HostEntry(
                    name=name,
                    address=str(values.get("ansible_host") or name),
                    hardware=None if values.get(VARIABLE) is None else str(values[VARIABLE]),
                    groups=member.get(name, []),
                )
            )
        return hosts, problems


class Judge:
    """Runs checks, except those that read an option with an invalid value.

    Attributes:
        wrong: names of the options with invalid values.
    """

    def __init__(self, wrong: Iterable[Problem]) -> None:
        """Store the names of the options that the problems are about."""
        self.wrong = {re.split(r"[.\[]", each["key"])[0] for each in wrong}

    def can(self, keys: str) -> bool:
        """Return whether all options of `keys` (names or patterns, separated by commas) have valid values."""
        return not any(fnmatch(name, pattern) for name in self.wrong for pattern in keys.split(", "))

    def __call__(self, keys: str, judged: Callable[[], list[Problem]]) -> list[Problem]:
        """Return the problems that a check of `keys` finds, or one problem if a value cannot be evaluated."""
        try:
            return judged() if self.can(keys) else []
        except BAD_INPUT as exc:
            remedy = "correct the variable; every entry needs a name"
            return [make_problem([], keys, f"cannot be evaluated: {reason(exc)}", remedy)]


def declared_types(settings: Sequence[Setting], values: Mapping[str, Any]) -> list[Problem]:
    """Return the options whose value, as written or as evaluated in `values`, has the wrong type."""
    options = {**declared_options(), **{name: Option("", spec) for name, spec in SITE_VARIABLES.items()}}
    problems = type_problems(settings, options)
    reported = {each["key"] for each in problems}
    places = {each.name: each for each in settings}
    return problems + [
        problem
        for name, value in values.items()
        if name in places
        for problem in type_problem(places[name]._replace(value=value), options[name])
        if problem["key"] not in reported
    ]


def unknown_option_problems(settings: Sequence[Setting], allowed: Sequence[str]) -> list[Problem]:
    """Return the variables that have a role's prefix but are not options."""
    known = {*declared_options(), *SITE_VARIABLES}
    return former_problems(settings, known) + unknown_problems(settings, known, family_names(), allowed)


def hardware_settings(inventory: InventoryManager, settings: Sequence[Setting]) -> tuple[list[GroupValue], list[str]]:
    """Return the groups that set the hardware, and the hosts that set it in their own variables."""
    values, own = [], []
    for each in settings:
        if each.name == VARIABLE and each.host:
            own.append(each.host)
        elif each.name == VARIABLE and each.scope.startswith("group "):
            group = inventory.groups[each.scope.removeprefix("group ")]
            ancestors = [ancestor.name for ancestor in group.get_ancestors()]
            values.append(GroupValue(group=group.name, value=str(each.value), ancestors=ancestors))
    return values, own
