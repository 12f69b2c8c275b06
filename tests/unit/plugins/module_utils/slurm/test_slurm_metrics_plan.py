"""How Slurm's metrics are collected on a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.metrics_plan import slurm_metrics_plan

SETTINGS: dict[str, Any] = {
    "source": "auto",
    "interval": 30,
    "timeout": 10,
    "jobs_limit": 5000,
    "memory_limit": "1G",
    "user": "",
}
ON = {"MetricsType": "metrics/openmetrics"}
PRIVATE = {**ON, "PrivateData": "jobs"}
OPEN = {**PRIVATE, "MetricsParameters": "ignore_private_data"}
OLD, NEW = "slurm 24.11.5", "slurm-wlm 25.11.0"


def plan(said: str = OLD, config: dict[str, str] | None = None, **changes: object) -> dict[str, Any]:
    return dict(slurm_metrics_plan(SETTINGS | changes, said, config or {}, "ctl"))


@pytest.mark.parametrize(
    ("source", "said", "config", "native"),
    [
        ("auto", OLD, ON, False),
        ("auto", NEW, {}, False),
        ("auto", NEW, ON, True),
        ("auto", "slurm 26.05.1", ON, True),
        ("auto", NEW, PRIVATE, False),
        ("auto", NEW, OPEN, True),
        ("auto", NEW, {**OPEN, "MetricsAuthUsers": "alice"}, False),
        ("auto", "", ON, False),
        ("collector", NEW, ON, False),
        ("openmetrics", NEW, ON, True),
        ("openmetrics", "", ON, True),
    ],
)
def test_source(source: str, said: str, config: dict[str, str], native: bool) -> None:  # noqa: FBT001 - a table
    found = plan(said, config, source=source)
    assert (found["native"], found["problems"]) == (native, [])


@pytest.mark.parametrize(
    ("config", "user", "own"),
    [({}, "busbar-metrics", True), (PRIVATE, "slurm", False), ({"privatedata": "jobs"}, "slurm", False)],
)
def test_user(config: dict[str, str], user: str, own: bool) -> None:  # noqa: FBT001 - a table
    found = plan(config=config)
    assert (found["user"], found["own_user"]) == (user, own)
    assert plan(config=config, user="monitor")["user"] == "monitor"


@pytest.mark.parametrize(
    ("said", "config", "changes", "key", "problem"),
    [
        (OLD, ON, {"source": "openmetrics"}, "slurm_metrics_source", "slurm 24.11.5, and Slurm has it from"),
        (NEW, {}, {"source": "openmetrics"}, "slurm_metrics_source", "slurm_config does not switch it on"),
        (NEW, PRIVATE, {"source": "openmetrics"}, "slurm_metrics_source", "PrivateData or MetricsAuthUsers"),
        (OLD, {}, {"interval": 4, "timeout": 2}, "slurm_metrics_interval", "4 s is too often"),
        (OLD, {}, {"interval": 10}, "slurm_metrics_timeout", "10 s is not between 1 and half"),
        (OLD, {}, {"memory_limit": "1 GB"}, "slurm_metrics_memory_limit", "1 GB is no size that systemd knows"),
        (OLD, {}, {"memory_limit": "0"}, "slurm_metrics_memory_limit", "0 is no size that systemd knows"),
        (OLD, {}, {"timeout": 0}, "slurm_metrics_timeout", "0 s is not between 1 and half"),
        (OLD, {}, {"jobs_limit": 0}, "slurm_metrics_jobs_limit", "less than 1"),
    ],
)
def test_problems(said: str, config: dict[str, str], changes: dict[str, Any], key: str, problem: str) -> None:
    (found,) = plan(said, config, **changes)["problems"]
    assert (found["hosts"], found["key"]) == (["ctl"], key)
    assert problem in found["problem"]
    assert found["remedy"]
