"""Check the group names of the inventory, which select the roles of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...module_utils.common.problems import advice, make_problem
from ..common.near_names import near_name, near_option
from .other_toolkits import adoption, foreign_group

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ...module_utils.common.problems import Problem

    Groups = Mapping[str, Sequence[str]]

# Purpose of the hosts in each group, in the order for messages.
KNOWN_GROUPS = {
    "slurm_controller": "run slurmctld",
    "slurm_database": "run slurmdbd and its database",
    "slurm_compute": "run jobs",
    "slurm_login": "accept logins of users",
    "nfs_server": "export directories",
    "nfs_client": "mount them",
    "monitoring": "run Prometheus",
    "portal": "run JupyterHub",
    "ldap_server": "run the LDAP directory of the cluster",
    "pxe_server": "boot compute nodes over the network",
    "scratch": "have local scratch, but are not compute nodes",
}
_NEEDED = ("slurm_controller", "slurm_database", "slurm_compute", "slurm_login")
_PATTERN = frozenset("*?[]~@")
_CORRECT = "correct the name, or remove it"
# Ansible's groups, and the prefix of groups that busbar's playbooks create.
_ANSIBLE = frozenset({"all", "ungrouped"})
_INTERNAL = "busbar_"
_OWN = "for a custom group, rename it or add it to preflight_allowed_variables"


def group_problems(groups: Groups, allowed: Collection[str] = ()) -> list[Problem]:
    """Return a problem for each group with a name similar to one of busbar's groups, and for hosts without a group.

    A custom group is valid if its name is not similar, or if all its hosts are also in the similar group of busbar.

    Args:
        groups: hosts of every group, from Ansible's variable `groups`.
        allowed: names of custom groups that are similar to busbar's.
    """
    others = [name for name in groups if not (name in KNOWN_GROUPS or name in _ANSIBLE or name.startswith(_INTERNAL))]
    problems = [problem for name in others if name not in allowed for problem in _one_group(name, others, groups)]
    known = {host for name in KNOWN_GROUPS for host in groups.get(name, ())}
    every = [host for host in groups.get("all", ()) if host != "localhost"]
    if every and not known:
        found = ", ".join(others)
        problem = f"has no hosts in any busbar group{f' (found {found})' if found else ''}"
        listed = ", ".join(f"{name} ({does})" for name, does in KNOWN_GROUPS.items())
        return [
            *problems,
            make_problem([], "inventory", problem, f"add each host to the groups of its roles: {listed}"),
        ]
    left = [host for host in every if host not in known and not any(host in each["hosts"] for each in problems)]
    if left:
        problem = "is in no group of busbar, so it gets only the base configuration: users, SSH, time"
        remedy = f"add it to one of {', '.join(KNOWN_GROUPS)}, if it has one of these roles"
        problems.append(advice(make_problem(left, "groups", problem, remedy)))
    return problems


def limit_problems(limit: str, groups: Groups) -> list[Problem]:
    """Return a problem for each name in `--limit` that matches no host or group, because Ansible ignores it.

    Args:
        limit: the value of `--limit`; patterns are not checked.
        groups: hosts of every group.
    """
    known = [*groups, *groups.get("all", ())]
    parts = (part.strip().lstrip("!&") for part in limit.split("," if "," in limit else ":"))
    words = [part for part in parts if part and not _PATTERN & set(part)]
    return [
        make_problem([], "--limit", f"no host or group {word} exists", f"did you mean {near}?" if near else _CORRECT)
        for word in words
        if word not in known
        for near in [near_name(word, known)]
    ]


def _one_group(name: str, others: Sequence[str], groups: Groups) -> list[Problem]:
    """Return at most one problem with a group that busbar does not define."""
    plain = name.lower().replace("-", "_")
    foreign = None if plain in KNOWN_GROUPS else foreign_group(name)
    near = plain if plain in KNOWN_GROUPS else near_option(plain, KNOWN_GROUPS)
    if foreign is None and not near:
        return _child_problem(name, others, groups)
    ours = foreign.ours if foreign else (near,)
    inside = {host for each in ours for host in groups.get(each, ())}
    outside = [host for host in groups[name] if host not in inside]
    if not outside:
        return []
    meant = " and ".join(ours)
    if foreign is None:
        remedy = f"did you mean {meant}? Rename it; {_OWN}"
        return [make_problem(outside, f"group {name}", "is not a group of busbar, so it has no effect", remedy)]
    whose = f" but one of {foreign.toolkit}" if foreign.toolkit else ""
    problem = f"is not a group of busbar{whose}, so it has no effect"
    found = make_problem(
        outside, f"group {name}", problem, f"{adoption(foreign.toolkit)}add its hosts to {meant} of busbar; {_OWN}"
    )
    # A group with a common name may be a custom one, unless it is the only candidate for a required group.
    certain = foreign.toolkit or any(each in _NEEDED and not groups.get(each) for each in ours)
    return [found if certain else advice(found)]


def _child_problem(name: str, others: Sequence[str], groups: Groups) -> list[Problem]:
    """Return a problem with an empty group whose name is similar to one with hosts, probably a misspelled child."""
    if groups[name]:
        return []
    near = near_name(name, (each for each in others if groups[each]))
    members = {host for each in KNOWN_GROUPS for host in groups.get(each, ())}
    if not near or all(host in members for host in groups[near]):
        return []
    remedy = f"did you mean {near}? Correct the name below children"
    return [make_problem(groups[near], f"group {name}", "has no host", remedy)]
