"""Check the inventory's consistency without contacting nodes."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypedDict

from ...module_utils.common.problems import Problem, make_problem
from ..engine.catalogue.builtin_profiles import profile_names, shipped_profile, unknown_hardware
from ..engine.catalogue.floors import UNKNOWN_DOMAIN, domain_nodes
from ..engine.catalogue.profile_check import profile_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_SPLIT = "give each rack a separate nvlink_domain"
_RESERVED = frozenset({"all", "default", "localhost"})


class GroupValue(TypedDict):
    """A variable's value in a group, with the group's ancestors."""

    group: str
    value: Any
    ancestors: list[str]


class HostEntry(TypedDict):
    """The inventory data of a host."""

    name: str
    address: str
    hardware: str | None
    groups: list[str]


def host_problems(hosts: Sequence[HostEntry]) -> list[Problem]:
    """Return the problems with host names and addresses."""
    by_address, by_name = defaultdict(list), defaultdict(list)
    for host in hosts:
        by_address[_normal_address(host["address"])].append(host["name"])
        by_name[host["name"].lower()].append(host["name"])
    problems = [
        make_problem([host["name"]], "host name", _name_fault(host["name"]), _name_remedy(host["name"]))
        for host in hosts
        if _name_fault(host["name"])
    ]
    problems += [
        make_problem(names, "ansible_host", f"share the address {address}", "give each host a unique address")
        for address, names in by_address.items()
        if len(names) > 1
    ]
    problems += [
        make_problem(names, "host name", "differ only in case", "rename all but one of them")
        for names in by_name.values()
        if len(names) > 1
    ]
    return problems


def competing_groups(values: Sequence[GroupValue]) -> list[GroupValue]:
    """Return the groups of one host that set a variable to different values without precedence.

    A group overrides its ancestors.
    """
    overruled = {ancestor for value in values for ancestor in value["ancestors"]}
    left = [value for value in values if value["group"] not in overruled]
    return left if any(value["value"] != left[0]["value"] for value in left[1:]) else []


def catalogue_problems(hosts: Sequence[HostEntry], catalogue: Mapping[str, Any]) -> list[Problem]:
    """Return the problems with the hardware profiles, each with the hosts that use it.

    Args:
        hosts: all hosts.
        catalogue: hardware profiles by name.
    """
    problems = []
    for name, profile in catalogue.items():
        users = [host["name"] for host in hosts if host["hardware"] == name]
        shipped = name in profile_names() and profile == shipped_profile(name)
        key = (
            f"plugins/plugin_utils/engine/catalogue/hardware/{name}.yml"
            if shipped
            else f"hardware_profiles_extra.{name}"
        )
        problems += profile_problems(name, profile, users, key)
    return problems


def hardware_choice_problems(
    hosts: Sequence[HostEntry],
    values: Sequence[GroupValue],
    own: Iterable[str],
    catalogue: Mapping[str, Any],
    compute: Iterable[str],
) -> list[Problem]:
    """Return the problems with each host's `hardware`.

    Args:
        hosts: all hosts.
        values: the groups that set `hardware`.
        own: hosts that set it in their own variables, which takes precedence.
        catalogue: hardware profiles by name.
        compute: hosts that require a hardware profile.
    """
    by_group = {value["group"]: value for value in values}
    settled, needing = set(own), set(compute)
    known = ", ".join(sorted(catalogue)) or "none"
    problems = []
    for host in hosts:
        name, hardware = host["name"], host["hardware"]
        competing = competing_groups([by_group[group] for group in sorted(host["groups"]) if group in by_group])
        if competing and name not in settled:
            claims = ", ".join(f"{value['group']}: {value['value']}" for value in competing)
            problem = f"is in several groups that set different values ({claims})"
            remedy = "keep the host in one of these groups, or set hardware as a host variable"
            problems.append(make_problem([name], "hardware", problem, remedy))
        elif hardware is None and name in needing:
            remedy = f"set hardware for the host or one of its groups to one of: {known}"
            problems.append(make_problem([name], "hardware", "is not set for a compute node", remedy))
        elif hardware is not None and hardware not in catalogue:
            problems.append(make_problem([name], "hardware", *unknown_hardware(hardware, catalogue)))
    return problems


def domain_problems(
    domains: Mapping[str, object], hardware: Mapping[str, str], catalogue: Mapping[str, Any]
) -> list[Problem]:
    """Return the problems with the compute nodes' `nvlink_domain`.

    Args:
        domains: `nvlink_domain` by compute node, or None.
        hardware: name of the profile by compute node.
        catalogue: hardware profiles by name; nodes with an unknown one are skipped.
    """
    problems, members = [], defaultdict(list)
    for name, domain in domains.items():
        most = domain_nodes(catalogue.get(hardware.get(name) or ""))
        if domain is not None and (not isinstance(domain, str) or not _DOMAIN.fullmatch(domain)):
            remedy = "set it to the name of the node's rack, such as rack1"
            problems.append(make_problem([name], "nvlink_domain", f"{domain!r} is not a valid name", remedy))
        elif most == 1 and domain is not None:
            problem = f"{hardware.get(name) or 'no hardware'} is not part of an NVLink rack (nvlink_domain_nodes)"
            problems.append(make_problem([name], "nvlink_domain", problem, "remove it, or correct the hardware"))
        elif most > 1 and domain is None:
            problem = f"{UNKNOWN_DOMAIN}; floors and IMEX depend on the trays that share an NVLink rack"
            remedy = (
                "set nvlink_domain for the hosts of each rack, such as rack1; trays of one rack show the same "
                "ClusterUUID and CliqueId in `nvidia-smi -q`"
            )
            problems.append(make_problem([name], "nvlink_domain", problem, remedy))
        elif most > 1:
            members[str(domain), most].append(name)
    return problems + [
        make_problem(
            names,
            "nvlink_domain",
            f"{domain} has {len(names)} nodes (an NVLink rack of this hardware has {most})",
            _SPLIT,
        )
        for (domain, most), names in members.items()
        if len(names) > most
    ]


def _normal_address(address: str) -> str:
    """Return an address in canonical form for comparison."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower().rstrip(".")


def _name_fault(name: str) -> str:
    """Return the problem with a host name, or ''."""
    if name.lower() in _RESERVED:
        return "is a reserved word"
    if "." in name:
        return "is a fully qualified name or an address (expected a short host name)"
    if not _LABEL.fullmatch(name):
        return "is not a valid host name (letters, digits and inner hyphens, at most 63)"
    return "is a bare number, which Slurm cannot use as a name" if name.isdigit() else ""


def _name_remedy(name: str) -> str:
    """Return the remedy for an invalid host name."""
    if "." in name:
        return f"use the short name in the inventory, and set ansible_host: {name}"
    return "rename the host in the inventory, and set ansible_host to its current address"
