"""Lookup of what is wrong with the inventory, before any node is contacted."""

from __future__ import annotations

DOCUMENTATION = r"""
name: inventory_problems
author: busbar contributors
short_description: What is wrong with the inventory
description:
  - Looks at all hosts of the inventory, whatever the run is limited to, and contacts none.
  - Every problem has C(hosts), C(key), C(problem) and C(remedy).
options:
  _terms:
    description: Not used.
    type: list
    elements: str
  catalogue:
    description: The known hardware by name.
    type: raw
    default: {}
  controllers:
    description: Hosts that run slurmctld.
    type: list
    elements: str
    default: []
  databases:
    description: Hosts that run slurmdbd.
    type: list
    elements: str
    default: []
  logins:
    description: Hosts where users log in.
    type: list
    elements: str
    default: []
  compute:
    description: Hosts that run jobs.
    type: list
    elements: str
    default: []
  accounting:
    description: Whether a cluster must have an accounting database.
    type: bool
    default: true
  nfs_servers:
    description: Hosts that export directories. What they declare is read from the variables of every host.
    type: list
    elements: str
    default: []
  nfs_clients:
    description: Hosts that mount what these export.
    type: list
    elements: str
    default: []
  monitoring:
    description: Hosts that run Prometheus. What they declare is read from the variables of every host.
    type: list
    elements: str
    default: []
  monitoring_jobs:
    description: Whom Prometheus scrapes, as the role prometheus takes it.
    type: dict
    default: {}
  secrets_dir:
    description: Directory of the secrets.
    type: str
    default: ""
  secrets:
    description: Random bytes of each secret by name.
    type: dict
    default: {}
  allowed_variables:
    description: The site's own variables and groups whose names resemble those of busbar.
    type: list
    elements: str
    default: []
  rotated_secrets:
    description: Names of the secrets that shall be made anew.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Refuse an inventory that contradicts itself
  ansible.builtin.assert:
    that: query('busbar.cluster.inventory_problems', catalogue=known) == []
"""

RETURN = r"""
_raw:
  description: The problems.
  type: list
  elements: dict
"""

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.lookup import LookupBase

from ..module_utils.access.account_problems import account_problems
from ..module_utils.access.accounts import slurm_users
from ..module_utils.common.problems import Problem, make_problem
from ..module_utils.nvidia.gpu_settings import merge_settings, settings_form
from ..plugin_utils.access.held_secrets import rotation_problems
from ..plugin_utils.border import BAD_INPUT, reason
from ..plugin_utils.declared_values import DeclaredValues
from ..plugin_utils.former_users import former_users_problems
from ..plugin_utils.monitoring.alert_routes import site_routing_problems
from ..plugin_utils.nvidia.driver_problems import site_driver_problems
from ..plugin_utils.preflight.groups import group_problems, limit_problems
from ..plugin_utils.preflight.inventory import (
    GroupValue,
    HostEntry,
    catalogue_problems,
    domain_problems,
    hardware_choice_problems,
    host_problems,
)
from ..plugin_utils.preflight.monitoring import site_monitoring_problems
from ..plugin_utils.preflight.options import (
    Option,
    Setting,
    former_problems,
    type_problem,
    type_problems,
    unknown_problems,
)
from ..plugin_utils.preflight.software import site_software_problems
from ..plugin_utils.preflight.storage import home_problems, site_storage_problems
from ..plugin_utils.preflight.unused import unused_options
from ..plugin_utils.preflight.values import value_problems
from ..plugin_utils.secret_files import secret_problems
from ..plugin_utils.site_variables import (
    SITE_VARIABLES,
    declared_options,
    family_names,
    site_settings,
    stray_files,
)
from ..plugin_utils.slurm.conf import inventory_node
from ..plugin_utils.slurm.partitions import role_problems
from ..plugin_utils.slurm.problems import external_database_problems, gpu_problems, slurm_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

VARIABLE = "hardware"
PROFILES = "hardware_profiles_extra"

# The options that this plugin judges as they are worked out, with what they are where a site sets none.
JUDGED: dict[str, Any] = {
    PROFILES: {},
    "users_accounts": [],
    "users_groups": [],
    "slurm_partitions": [],
    "slurm_config": {},
    "slurm_topology": {},
    "slurm_accounts": [],
    "slurm_users": [],
    "slurm_qos": [],
    "slurm_account_groups": [],
    "slurm_admin_groups": [],
    "slurm_checks_partition": "",
    "slurm_database_external": {},
    "slurm_state_shared": False,
    "slurm_state_directory": "",
    "identity_source": "declared",
}
_ACCOUNTING = ("accounts", "qos", "account_groups", "admin_groups")


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.inventory_problems`."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[Problem]:
        """Return the problems of the inventory; `terms` say nothing."""
        del terms
        known = variables or {}
        self.set_options(var_options=known, direct=kwargs)
        groups = {name: list(hosts) for name, hosts in known["groups"].items()}
        compute = self.get_option("compute")
        sources = known["ansible_inventory_sources"]
        # The variables of a host hold one value only, that of the place which won; so the inventory is read once more.
        inventory = InventoryManager(loader=self._loader, sources=list(sources))
        settings = site_settings(inventory, self._loader, sources)
        allowed = self.get_option("allowed_variables")
        declared = DeclaredValues(self._templar, self._loader, known, settings)
        values = {name: declared.get(name, default) for name, default in JUDGED.items()}
        problems = group_problems(groups, allowed) + unknown_option_problems(settings, allowed)
        problems += limit_problems(str(known.get("ansible_limit") or ""), groups) + stray_files(inventory, sources)
        wrong = [*declared.unclear, *declared_types(settings, values)]
        problems += declared.absent + wrong + value_problems(settings)
        problems += unused_options(settings, groups, declared_options())
        # Checks that read a value of a wrong type are skipped.
        judge = Judge(wrong)
        hosts, unclear = self._hosts(known["hostvars"], groups)
        problems += unclear
        hardware, own = hardware_settings(inventory, settings)
        problems += host_problems(hosts)
        if judge.can(f"{VARIABLE}, {PROFILES}"):
            catalogue = self.get_option("catalogue")
            problems += hardware_choice_problems(hosts, hardware, own, catalogue, compute)
            wrong_profiles = catalogue_problems(hosts, catalogue)
            problems += wrong_profiles
            judge.wrong.update({PROFILES} if wrong_profiles else ())
            # Hosts of unknown hardware have been named: what follows takes them for hosts without GPUs.
            named: dict[str, Any] = {host["hardware"]: {} for host in hosts if host["hardware"]}
            self.set_option("catalogue", {**named, **catalogue})
        problems += self._slurm(judge, known["hostvars"], groups, values)
        problems += judge(
            "slurm_database_external",
            lambda: external_database_problems(
                values["slurm_database_external"],
                self.get_option("databases"),
                has_password=any(each.name == "slurm_database_password" for each in settings),
            ),
        )
        problems += self._gpus(judge, known["hostvars"], compute)
        problems += self._roles(judge, known["hostvars"], groups, values)
        others = {str(each.value) for each in settings if each.name == "ansible_user"}
        directory = values["identity_source"] != "declared"
        problems += judge(
            "users_accounts, users_groups",
            lambda: account_problems(
                values["users_accounts"], values["users_groups"], known=None if directory else others
            ),
            "give each entry a name and a number",
        )
        problems += former_users_problems(settings, values)
        folder, secrets = self.get_option("secrets_dir"), self.get_option("secrets")
        problems += secret_problems(folder, secrets)
        present = [name for name in secrets if Path(folder, name).exists()]
        return problems + rotation_problems(self.get_option("rotated_secrets"), present, list(secrets), folder)

    def _hosts(self, hostvars: dict[str, Any], groups: dict[str, list[str]]) -> tuple[list[HostEntry], list[Problem]]:
        """Return what the inventory says about each host, and the problems of values that cannot be worked out."""
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
                    problems.append(make_problem([name], key, f"cannot be worked out: {exc}", "correct its template"))
            hosts.append(
                HostEntry(
                    name=name,
                    address=str(values.get("ansible_host") or name),
                    hardware=None if values.get(VARIABLE) is None else str(values[VARIABLE]),
                    groups=member.get(name, []),
                )
            )
        return hosts, problems

    def _slurm(
        self, judge: Judge, hostvars: Mapping[str, Any], groups: dict[str, list[str]], values: Mapping[str, Any]
    ) -> list[Problem]:
        """Return the problems of what is declared for Slurm."""
        roles = {name: self.get_option(name) for name in ("controllers", "databases", "logins")}
        compute = self.get_option("compute")
        problems = []
        if self.get_option("accounting"):
            problems += role_problems(roles["controllers"], roles["databases"], roles["logins"], compute)

        def judged() -> list[Problem]:
            return slurm_problems(
                # Hardware is judged elsewhere, together with the groups that it comes from.
                nodes=[{**inventory_node(name, hostvars[name]), "hardware": ""} for name in compute],
                catalogue={"": {}},
                partitions=values["slurm_partitions"],
                groups=groups,
                config=values["slurm_config"],
                topology=values["slurm_topology"],
                accounting={
                    **{key: values[f"slurm_{key}"] or [] for key in _ACCOUNTING},
                    "users": slurm_users(values["users_accounts"]),
                    "identity_source": str(values["identity_source"]),
                },
                checks_partition=str(values["slurm_checks_partition"] or ""),
                state_shared=bool(values["slurm_state_shared"]),
                state_directory=str(values["slurm_state_directory"] or ""),
                **roles,
            )

        return problems + judge("slurm_*, users_accounts", judged, "correct the variable; every entry needs a name")

    def _gpus(self, judge: Judge, hostvars: Mapping[str, Any], compute: list[str]) -> list[Problem]:
        """Return the problems of NVLink racks, MIG layouts, settings of GPUs, and how Slurm learns of them."""
        catalogue = self.get_option("catalogue")

        def judged() -> list[Problem]:
            problems = []
            for name in compute:
                values = hostvars[name].get("gpu_settings_values")
                gpu = (catalogue.get(hostvars[name].get(VARIABLE) or "") or {}).get("gpu") or {}
                remedy = "correct gpu.settings of the hardware, or gpu_settings_values of the host"
                wrong = settings_form(merge_settings(gpu.get("settings"), values))
                problems += [make_problem([name], "gpu_settings_values", each, remedy) for each in wrong]
            domains = {name: hostvars[name].get("nvlink_domain") for name in compute}
            hardware = {name: str(hostvars[name].get(VARIABLE) or "") for name in compute}
            problems += domain_problems(domains, hardware, catalogue)
            return problems + gpu_problems([inventory_node(name, hostvars[name]) for name in compute], catalogue)

        keys = f"gpu_settings_values, mig_layout, slurm_gres_mode, slurm_node_*, nvlink_domain, {VARIABLE}, {PROFILES}"
        return judge(keys, judged)

    def _roles(
        self, judge: Judge, hostvars: Mapping[str, Any], groups: dict[str, list[str]], values: Mapping[str, Any]
    ) -> list[Problem]:
        """Return the problems of what is declared for storage, drivers, containers, IP over InfiniBand, monitoring."""
        catalogue, monitoring, every = (
            self.get_option("catalogue"),
            self.get_option("monitoring"),
            groups.get("all", []),
        )
        jobs = self.get_option("monitoring_jobs")
        servers, clients = self.get_option("nfs_servers"), self.get_option("nfs_clients")
        compute = self.get_option("compute")
        return [
            *judge(
                "nfs_server_exports, nfs_client_mounts, storage_mounts_entries",
                lambda: site_storage_problems(every, servers, clients, hostvars),
            ),
            *judge(
                "users_home_base, nfs_client_mounts, nfs_server_exports, storage_mounts_entries",
                lambda: home_problems(
                    list(dict.fromkeys(self.get_option("logins") + compute)),
                    servers,
                    clients,
                    hostvars,
                    has_users=bool(values["users_accounts"]) or values["identity_source"] != "declared",
                ),
            ),
            *judge(
                f"nvidia_driver_*, {VARIABLE}, {PROFILES}",
                lambda: site_driver_problems(compute, hostvars, catalogue),
            ),
            *judge(
                "enroot_checksums, pyxis_sha256, rdma_ipoib_interfaces",
                lambda: site_software_problems(every, hostvars),
            ),
            *judge(
                f"prometheus_*, monitoring_*, {VARIABLE}, {PROFILES}",
                lambda: site_monitoring_problems(monitoring, hostvars, catalogue, jobs),
            ),
            *judge("alertmanager_receivers, alertmanager_routes", lambda: site_routing_problems(monitoring, hostvars)),
        ]


class Judge:
    """Calls checks, but not those that read an option whose value has no meaning.

    Attributes:
        wrong: names of these options.
    """

    def __init__(self, wrong: Iterable[Problem]) -> None:
        """Take the problems of these values."""
        self.wrong = {re.split(r"[.\[]", each["key"])[0] for each in wrong}

    def can(self, keys: str) -> bool:
        """Whether all options of `keys`, names or patterns with commas between them, can be judged."""
        return not any(fnmatch(name, pattern) for name in self.wrong for pattern in keys.split(", "))

    def __call__(
        self, keys: str, judged: Callable[[], list[Problem]], remedy: str = "correct the variable"
    ) -> list[Problem]:
        """Return the problems that a check of `keys` finds, or the one that a value of them cannot be worked out."""
        try:
            return judged() if self.can(keys) else []
        except BAD_INPUT as exc:
            return [make_problem([], keys, f"cannot be worked out: {reason(exc)}", remedy)]


def declared_types(settings: Sequence[Setting], values: Mapping[str, Any]) -> list[Problem]:
    """Return the options of a wrong type: as they are written, and `values` as they are worked out."""
    options = {**declared_options(), **{name: Option("", spec) for name, spec in SITE_VARIABLES.items()}}
    problems = type_problems(settings, options)
    told = {each["key"] for each in problems}
    places = {each.name: each for each in settings}
    return problems + [
        problem
        for name, value in values.items()
        if name in places
        for problem in type_problem(places[name]._replace(value=value), options[name])
        if problem["key"] not in told
    ]


def unknown_option_problems(settings: Sequence[Setting], allowed: Sequence[str]) -> list[Problem]:
    """Return the variables that are not options although their names say so."""
    known = {*declared_options(), *SITE_VARIABLES}
    return former_problems(settings, known) + unknown_problems(settings, known, family_names(), allowed)


def hardware_settings(inventory: InventoryManager, settings: Sequence[Setting]) -> tuple[list[GroupValue], list[str]]:
    """Return the groups that set the hardware, and the hosts that set it themselves."""
    values, own = [], []
    for each in settings:
        if each.name == VARIABLE and each.host:
            own.append(each.host)
        elif each.name == VARIABLE and each.scope.startswith("group "):
            group = inventory.groups[each.scope.removeprefix("group ")]
            ancestors = [ancestor.name for ancestor in group.get_ancestors()]
            values.append(GroupValue(group=group.name, value=str(each.value), ancestors=ancestors))
    return values, own
