"""Checks the options of the slurm_metrics role."""

from __future__ import annotations

import re

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

_LEAST_INTERVAL = 5
# systemd ignores an invalid size and sets no limit.
_MEMORY = re.compile(r"[1-9][0-9]*[KMGT]|[1-9][0-9]?%|infinity")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options.

    Args:
        options: `source`, `interval`, `timeout`, `jobs_limit` and `memory_limit` of the role; `version` of slurmctld,
            as it prints it. Three booleans describe slurmctld's metrics: this version supports them (`able`),
            slurm.conf enables them (`offered`), and Prometheus can read them without a token (`open`).
        cluster: variables of the cluster. Only `host`, the inventory name of this host, is read.
    """
    host = cluster["host"]
    problems = _numbers(options, host)
    if options["source"] != "openmetrics":
        return problems
    offered = options["offered"]
    faults = (
        (
            not options["able"],
            f"needs Slurm 25.11 or newer (found {options['version'].strip()})",
            "use auto or collector",
        ),
        (
            not offered,
            "slurm_config does not enable it",
            "set MetricsType: metrics/openmetrics there, which lets all clients of slurmctld read the metrics",
        ),
        (
            offered and not options["open"],
            "PrivateData or MetricsAuthUsers in slurm_config blocks Prometheus",
            "slurm_metrics_source: collector, or MetricsParameters: ignore_private_data",
        ),
    )
    return problems + [
        make_problem([host], "slurm_metrics_source", f"openmetrics, but {problem}", remedy)
        for wrong, problem, remedy in faults
        if wrong
    ]


def _numbers(options: Known, host: str) -> list[Problem]:
    interval, timeout = int(options["interval"]), int(options["timeout"])
    checks = (
        (
            interval < _LEAST_INTERVAL,
            "slurm_metrics_interval",
            f"{interval} s is below {_LEAST_INTERVAL} s",
            f"set {_LEAST_INTERVAL} or more seconds",
        ),
        (
            not 1 <= timeout <= max(1, interval // 2),
            "slurm_metrics_timeout",
            f"{timeout} s is not between 1 s and half of slurm_metrics_interval ({interval} s)",
            f"set at most {max(1, interval // 2)} s, so that a hanging slurmctld is detected in time",
        ),
        (
            int(options["jobs_limit"]) < 1,
            "slurm_metrics_jobs_limit",
            "is below 1",
            "set a positive number, or slurm_metrics_jobs: false",
        ),
        (
            not _MEMORY.fullmatch(str(options["memory_limit"])),
            "slurm_metrics_memory_limit",
            f"{options['memory_limit']} is not a valid size",
            "set a number with K, M, G or T, such as 1G, a percentage such as 5%, or infinity",
        ),
    )
    return [make_problem([host], key, problem, remedy) for wrong, key, problem, remedy in checks if wrong]
