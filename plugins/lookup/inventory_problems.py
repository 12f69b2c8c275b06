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
  partitions:
    description: Slurm's partitions as declared.
    type: raw
    default: []
  slurm:
    description:
      - What else is declared for Slurm, as the options of the role slurm of the same names.
      - C(config), C(topology), C(accounts), C(users), C(qos), C(state_shared), C(state_directory).
    type: dict
    default: {}
  accounting:
    description: Whether a cluster must have an accounting database.
    type: bool
    default: true
  users:
    description: User accounts as declared.
    type: raw
    default: []
  groups:
    description: User groups as declared.
    type: raw
    default: []
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
    description: The site's own variables whose names begin like those of a role.
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

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.lookup import LookupBase

from ..module_utils.access.account_problems import account_problems
from ..module_utils.access.held_secrets import rotation_problems
from ..module_utils.common.problems import Problem, make_problem
from ..module_utils.monitoring.alert_routes import site_routing_problems
from ..module_utils.nvidia.driver_problems import site_driver_problems
from ..module_utils.nvidia.gpu_settings import merge_settings, settings_form
from ..module_utils.preflight.inventory import (
    GroupValue,
    HostEntry,
    catalogue_problems,
    domain_problems,
    hardware_choice_problems,
    host_problems,
)
from ..module_utils.preflight.monitoring import site_monitoring_problems
from ..module_utils.preflight.options import Setting, former_problems, type_problem, type_problems, unknown_problems
from ..module_utils.preflight.software import site_software_problems
from ..module_utils.preflight.storage import site_storage_problems
from ..module_utils.slurm.conf import inventory_node
from ..module_utils.slurm.partitions import role_problems
from ..module_utils.slurm.problems import gpu_problems, slurm_problems
from ..plugin_utils.border import BAD_INPUT, reason
from ..plugin_utils.secret_files import secret_problems
from ..plugin_utils.site_variables import (
    SITE_VARIABLES,
    declared_options,
    family_names,
    site_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

VARIABLE = "hardware"


_ACCOUNTING = ("accounts", "users", "qos", "account_groups", "admin_groups")


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
        problems = unknown_option_problems(settings, self.get_option("allowed_variables"))
        wrong_types = self._types(settings)
        if wrong_types:
            return problems + wrong_types  # what such a value means cannot be judged
        hosts, wrong = self._hosts(known["hostvars"], groups)
        problems += wrong
        values, own = hardware_settings(inventory, settings)
        problems += host_problems(hosts)
        catalogue = self.get_option("catalogue")
        problems += hardware_choice_problems(hosts, values, own, catalogue, compute)
        wrong_profiles = catalogue_problems(hosts, catalogue)
        if wrong_profiles:
            return problems + wrong_profiles  # nor what a profile means that is none
        # Hosts of unknown hardware have been named: what follows takes them for hosts without GPUs.
        named: dict[str, Any] = {host["hardware"]: {} for host in hosts if host["hardware"]}
        self.set_option("catalogue", {**named, **catalogue})
        problems += self._slurm(known["hostvars"], groups)
        problems += self._gpus(known["hostvars"], compute)
        problems += self._roles(known["hostvars"], groups)
        problems += worked_out(
            "users_accounts, users_groups",
            lambda: account_problems(self.get_option("users"), self.get_option("groups")),
            "give each entry a name and a number",
        )
        folder, secrets = self.get_option("secrets_dir"), self.get_option("secrets")
        problems += secret_problems(folder, secrets)
        present = [name for name in secrets if Path(folder, name).exists()]
        problems += rotation_problems(self.get_option("rotated_secrets"), present, list(secrets), folder)
        return problems

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

    def _slurm(self, hostvars: Mapping[str, Any], groups: dict[str, list[str]]) -> list[Problem]:
        """Return the problems of what is declared for Slurm."""
        roles = {name: self.get_option(name) for name in ("controllers", "databases", "logins")}
        compute, more = self.get_option("compute"), self.get_option("slurm")
        problems = []
        if self.get_option("accounting"):
            problems += role_problems(roles["controllers"], roles["databases"], roles["logins"], compute)

        def judged() -> list[Problem]:
            return slurm_problems(
                # Hardware is judged elsewhere, together with the groups that it comes from.
                nodes=[{**inventory_node(name, hostvars[name]), "hardware": ""} for name in compute],
                catalogue={"": {}},
                partitions=self.get_option("partitions"),
                groups=groups,
                config=more.get("config"),
                topology=more.get("topology"),
                accounting={
                    **{key: more.get(key) or [] for key in _ACCOUNTING},
                    "identity_source": str(more.get("identity_source") or ""),
                },
                checks_partition=str(more.get("checks_partition") or ""),
                state_shared=bool(more.get("state_shared")),
                state_directory=str(more.get("state_directory") or ""),
                **roles,
            )

        return problems + worked_out("slurm_*", judged, "correct the variable; every entry needs a name")

    def _gpus(self, hostvars: Mapping[str, Any], compute: list[str]) -> list[Problem]:
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

        return worked_out("gpu_settings_values, mig_layout, slurm_gres_mode, nvlink_domain", judged)

    def _roles(self, hostvars: Mapping[str, Any], groups: dict[str, list[str]]) -> list[Problem]:
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
            *worked_out(
                "nfs_server_exports, nfs_client_mounts, storage_mounts_entries",
                lambda: site_storage_problems(every, servers, clients, hostvars),
            ),
            *worked_out("nvidia_driver_*", lambda: site_driver_problems(compute, hostvars, catalogue)),
            *worked_out(
                "enroot_checksums, pyxis_sha256, rdma_ipoib_interfaces",
                lambda: site_software_problems(every, hostvars),
            ),
            *worked_out(
                "prometheus_*, monitoring_*",
                lambda: site_monitoring_problems(monitoring, hostvars, catalogue, jobs),
            ),
            *worked_out(
                "alertmanager_receivers, alertmanager_routes", lambda: site_routing_problems(monitoring, hostvars)
            ),
        ]

    def _types(self, settings: Sequence[Setting]) -> list[Problem]:
        """Return the options of a wrong type; of those that this plugin judges, their templates are worked out."""
        options = declared_options()
        problems = type_problems(settings, options)
        told = {each["key"] for each in problems}
        places = {each.name: each for each in settings}
        for name, (preflight, value) in self._given().items():
            # As the user wrote it: the option of the preflight takes its value from another role's by default.
            key = preflight if preflight in places else name
            if key not in told:
                problems += type_problem(
                    places.get(key, Setting(key, None, "all"))._replace(value=value), options[name]
                )
        return problems

    def _given(self) -> dict[str, tuple[str, Any]]:
        """Return the values that this plugin judges by their options, each with the option of the preflight."""
        given = {
            "slurm_partitions": ("preflight_partitions", self.get_option("partitions")),
            "users_accounts": ("preflight_accounts", self.get_option("users")),
            "users_groups": ("preflight_groups", self.get_option("groups")),
        }
        slurm = self.get_option("slurm")
        # Where users come from is no option of Slurm's, and judged with its own role.
        own = {name: value for name, value in slurm.items() if name != "identity_source"}
        return given | {f"slurm_{name}": ("preflight_slurm", value) for name, value in own.items()}


def worked_out(keys: str, judged: Callable[[], list[Problem]], remedy: str = "correct the variable") -> list[Problem]:
    """Return the problems that a check finds, or the one that a value of `keys` cannot be worked out."""
    try:
        return judged()
    except BAD_INPUT as exc:
        return [make_problem([], keys, f"cannot be worked out: {reason(exc)}", remedy)]


def unknown_option_problems(settings: Sequence[Setting], allowed: Sequence[str]) -> list[Problem]:
    """Return the variables that begin like an option of a role and are none."""
    known = {*declared_options(), *SITE_VARIABLES}
    return former_problems(settings) + unknown_problems(settings, known, family_names(), allowed)


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
