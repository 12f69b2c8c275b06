"""Checks the monitoring options of a site before any host is contacted."""

from __future__ import annotations

from pathlib import Path

from ...plugins.plugin_utils.monitoring.prometheus_plan import prometheus_problems, shipped_alert_problems
from ...plugins.plugin_utils.monitoring.scrape_targets import scrape_targets, target_problems
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

_MOST_HOSTS = 2
_RULES = Path(__file__).parent / "files/rules"
_CHECKED = (
    "retention_time",
    "retention_size",
    "scrape_interval",
    "evaluation_interval",
    "rules",
    "remote_write",
)


def check_inventory(_: Known, cluster: Known) -> list[Problem]:
    """Return the problems that are visible in the inventory; the roles run the checks that need a host.

    Args:
        cluster: `monitoring`, the hosts that run Prometheus (without any, nothing is checked); `hostvars`; `catalogue`,
            the known hardware by name; and `monitoring_jobs` of Prometheus.
    """
    hosts, variables = cluster["monitoring"], cluster["hostvars"]
    problems = []
    if len(hosts) > _MOST_HOSTS:
        found = f"{len(hosts)} hosts are in the group (supported: 1 or 2)"
        remedy = "keep one or two hosts in it, because each of them scrapes the whole cluster"
        problems.append(make_problem(hosts, "monitoring", found, remedy))
    for host in hosts:
        known = variables[host]
        settings = {key: known[f"prometheus_{key}"] for key in _CHECKED if f"prometheus_{key}" in known}
        wrong = prometheus_problems(settings, host)
        alerts = known.get("prometheus_alerts") or {}
        problems += wrong or shipped_alert_problems(str(_RULES), settings.get("rules") or {}, alerts, host)
    targets = scrape_targets(cluster["monitoring_jobs"], variables, cluster["catalogue"]) if hosts else {}
    for problem in target_problems(targets):
        # Skip hosts that share an address in the inventory, because another check reports them.
        if len({str(variables[name].get("ansible_host") or name) for name in problem["hosts"]}) > 1:
            problems.append(problem)
    return problems


INVENTORY = {"prometheus_*, monitoring_*, hardware, hardware_profiles_extra": check_inventory}
