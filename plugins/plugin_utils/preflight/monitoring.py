"""Checks what a site declares of its monitoring, before any host is contacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem
from ..monitoring.prometheus_plan import prometheus_problems
from ..monitoring.scrape_targets import scrape_targets, target_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...module_utils.common.problems import Problem

__all__ = ["site_monitoring_problems"]

_MOST_HOSTS = 2
_CHECKED = (
    "retention_time",
    "retention_size",
    "scrape_interval",
    "evaluation_interval",
    "rules",
    "remote_write",
)


def site_monitoring_problems(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, Any]],
    catalogue: Mapping[str, Mapping[str, Any]],
    jobs: Mapping[str, Mapping[str, Any]],
) -> list[Problem]:
    """Return what is wrong; the roles look closer, at what only a host can tell.

    Args:
        hosts: those that run Prometheus; without one nothing is looked at.
        variables: variables of every host; options that are not there have the defaults of their roles.
        catalogue: the known hardware by name.
        jobs: of Prometheus; they are those of the site.
    """
    problems = []
    if len(hosts) > _MOST_HOSTS:
        found = f"{len(hosts)} hosts are in the group, and one alone or a pair are supported"
        remedy = "take hosts out of it: each scrapes the whole cluster, and the two others of three would do it in vain"
        problems.append(make_problem(hosts, "monitoring", found, remedy))
    for host in hosts:
        known = variables[host]
        settings = {key: known[f"prometheus_{key}"] for key in _CHECKED if f"prometheus_{key}" in known}
        problems += prometheus_problems(settings, host)
    for problem in target_problems(scrape_targets(jobs, variables, catalogue)) if hosts else []:
        # Hosts that share the address of the inventory are told of as such.
        if len({str(variables[name].get("ansible_host") or name) for name in problem["hosts"]}) > 1:
            problems.append(problem)
    return problems
