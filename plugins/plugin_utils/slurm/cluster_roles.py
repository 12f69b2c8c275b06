"""Check which hosts are controllers, databases, login and compute nodes, and the partitions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ..engine.common.hostlist import unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def cluster_name_problems(key: str, name: object) -> list[Problem]:
    """Return a problem for an invalid cluster name; an empty name stands for the default."""
    if not name or _CLUSTER_NAME.fullmatch(str(name)):
        return []
    return [make_problem([], key, f"{name!r} is not a valid name", "use letters, digits, '_' and '-', at most 40")]


def role_problems(
    controllers: Sequence[str], databases: Sequence[str], logins: Sequence[str], compute: Sequence[str]
) -> list[Problem]:
    """Return the problems with the groups of hosts, for example if there is no controller or database."""
    problems = []
    if compute or logins:
        missing = [("slurm_controller", controllers, "controller"), ("slurm_database", databases, "database")]
        problems += [
            make_problem([], group, f"has no host, so the cluster has no {role}", f"add a host to the group {group}")
            for group, hosts, role in missing
            if not hosts
        ]
    if controllers and not compute:
        remedy = "add the compute nodes to the group slurm_compute"
        problems.append(make_problem([], "slurm_compute", "has no host, so the cluster cannot run jobs", remedy))
    # Controllers that run jobs are allowed, because their daemons already use resources of jobs.
    both = sorted(set(logins) & set(compute) - set(controllers))
    if both:
        problem = "is both a login and a compute node: login sessions would use resources allocated to jobs"
        remedy = "remove the host from slurm_login; users can also use Slurm from a compute node"
        problems.append(make_problem(both, "slurm_login", problem, remedy))
    return problems


def partition_problems(
    partitions: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[str]], compute: Sequence[str]
) -> list[Problem]:
    """Return the problems with the partitions: no nodes, unknown nodes or groups, duplicates, several defaults."""
    problems = [problem for partition in partitions for problem in _one_partition(partition, groups, set(compute))]
    names = [str(partition.get("name")) for partition in partitions]
    problems += [
        make_problem([], f"slurm_partitions[{name}]", "is not a valid name", "use letters, digits, '_', '-' and '.'")
        for name in names
        if not _NAME.fullmatch(name)
    ]
    problems += [
        make_problem([], f"slurm_partitions[{name}]", "is declared more than once", "merge or rename the entries")
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    defaults = [name for name, partition in zip(names, partitions, strict=True) if partition.get("default")]
    if len(defaults) > 1:
        problem = f"has {len(defaults)} default partitions: {', '.join(defaults)}"
        problems.append(make_problem([], "slurm_partitions", problem, "keep default: true in one of them"))
    return problems


def _one_partition(
    partition: Mapping[str, Any], groups: Mapping[str, Sequence[str]], compute: set[str]
) -> list[Problem]:
    """Return the problems with one partition."""
    key = f"slurm_partitions[{partition.get('name')}]"
    nodes, names = partition.get("nodes"), partition.get("groups")
    if not nodes and names == []:
        return [make_problem([], key, "groups is empty", "list groups, or omit groups to use all compute nodes")]
    if not nodes and not names:
        return []
    try:
        chosen = set(unfold_hosts(nodes)) if nodes else set()
    except ValueError as exc:
        return [make_problem([], key, str(exc), "correct nodes")]
    unknown = [name for name in names or [] if name not in groups]
    problems = [
        make_problem([], key, f"contains the group {name}, which is not in the inventory", "correct groups")
        for name in unknown
    ]
    misplaced = sorted((chosen - compute) & groups.keys())
    if misplaced:
        remedy = f"write groups: [{', '.join(misplaced)}]"
        problem = f"nodes contains a group of the inventory: {', '.join(misplaced)}"
        problems.append(make_problem([], key, problem, remedy))
    strangers = sorted(chosen - compute - set(misplaced))
    if strangers:
        remedy = "correct nodes, or add these hosts to slurm_compute"
        problems.append(make_problem(strangers, key, "is in this partition, but is not a compute node", remedy))
    chosen.update(host for name in names or [] for host in groups.get(name, ()))
    if not chosen & compute and not problems:
        remedy = "correct nodes and groups, or remove the partition"
        problems.append(make_problem([], key, "contains no compute node", remedy))
    return problems
