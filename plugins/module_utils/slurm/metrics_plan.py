"""How Slurm's metrics are collected on a host: from its release and its configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict

from ..common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MetricsPlan", "slurm_metrics_plan"]

# Slurm's metrics guide: https://slurm.schedmd.com/metrics.html
_FIRST_NATIVE = (25, 11)
_METRICS_TYPE = "metrics/openmetrics"
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_LEAST_INTERVAL = 5
# Of systemd's sizes those that can only be meant as one: it takes what it does not know for no limit at all.
_MEMORY = re.compile(r"[1-9][0-9]*[KMGT]|[1-9][0-9]?%|infinity")
_OWN_USER = "busbar-metrics"


class MetricsPlan(TypedDict):
    """What is wrong, whether slurmctld gives a part itself, and which user asks for the rest."""

    problems: list[Problem]
    native: bool
    user: str
    own_user: bool


def slurm_metrics_plan(settings: Mapping[str, Any], said: str, config: Mapping[str, Any], host: str) -> MetricsPlan:
    """Return how metrics are collected.

    Args:
        settings: options of the role without its name: source, interval, timeout, jobs_limit, memory_limit, user.
        said: what ``slurmctld -V`` printed, '' where it is not there yet.
        config: keys of slurm.conf that the site declares.
        host: its name, for messages.
    """
    keys = {key.lower(): str(value) for key, value in config.items()}
    matched = _RELEASE.search(said)
    release = (int(matched[1]), int(matched[2])) if matched else None
    private = bool(keys.get("privatedata", "").strip())
    offered = keys.get("metricstype", "") == _METRICS_TYPE
    # Without these two, a server that scrapes would need a token of Slurm's.
    open_to_all = "metricsauthusers" not in keys and (
        not private or "ignore_private_data" in keys.get("metricsparameters", "")
    )
    able = release is None or release >= _FIRST_NATIVE
    native = settings["source"] == "openmetrics" or (
        settings["source"] == "auto" and offered and open_to_all and release is not None and able
    )
    problems = _numbers(settings, host)
    if settings["source"] == "openmetrics":
        problems += [
            make_problem([host], "slurm_metrics_source", f"openmetrics, but {problem}", remedy)
            for wrong, problem, remedy in (
                (
                    not able,
                    f"this is {said.strip()}, and Slurm has it from 25.11 on",
                    "leave it at auto, or say collector",
                ),
                (
                    not offered,
                    "slurm_config does not switch it on",
                    f"slurm_config: {{MetricsType: {_METRICS_TYPE}}}; then anybody who reaches slurmctld reads them",
                ),
                (
                    offered and not open_to_all,
                    "PrivateData or MetricsAuthUsers in slurm_config keeps Prometheus out",
                    "slurm_metrics_source: collector, or MetricsParameters: ignore_private_data",
                ),
            )
            if wrong
        ]
    user = settings["user"] or ("slurm" if private else _OWN_USER)
    return {"problems": problems, "native": native, "user": user, "own_user": user == _OWN_USER}


def _numbers(settings: Mapping[str, Any], host: str) -> list[Problem]:
    interval, timeout = int(settings["interval"]), int(settings["timeout"])
    checks = (
        (
            interval < _LEAST_INTERVAL,
            "slurm_metrics_interval",
            f"{interval} s is too often",
            f"{_LEAST_INTERVAL} or more",
        ),
        (
            not 1 <= timeout <= max(1, interval // 2),
            "slurm_metrics_timeout",
            f"{timeout} s is not between 1 and half of slurm_metrics_interval, {interval} s",
            f"{max(1, interval // 2)} or less; a slurmctld that hangs would be seen too late",
        ),
        (
            int(settings["jobs_limit"]) < 1,
            "slurm_metrics_jobs_limit",
            "it is less than 1",
            "a positive number, or slurm_metrics_jobs: false",
        ),
        (
            not _MEMORY.fullmatch(str(settings["memory_limit"])),
            "slurm_metrics_memory_limit",
            f"{settings['memory_limit']} is no size that systemd knows",
            "a number with K, M, G or T, such as 1G, a percentage such as 5%, or infinity",
        ),
    )
    return [make_problem([host], key, problem, remedy) for wrong, key, problem, remedy in checks if wrong]
