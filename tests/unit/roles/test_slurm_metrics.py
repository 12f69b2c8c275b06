"""Tests of the source of Slurm's metrics on a host (native or collector), of its user, and of refused options."""

from __future__ import annotations

from typing import Any

import pytest
from role_files import value

ON = {"MetricsType": "metrics/openmetrics"}
PRIVATE = {**ON, "PrivateData": "jobs"}
OPEN = {**PRIVATE, "MetricsParameters": "ignore_private_data"}
OLD, NEW = "slurm 24.11.5", "slurm-wlm 25.11.0"


def found(name: str, said: str, config: dict[str, str], **changes: object) -> Any:  # noqa: ANN401 - any variable
    options = {f"slurm_metrics_{key}": each for key, each in changes.items()}
    given = {"__slurm_metrics_slurm_config": config, "__slurm_metrics_slurmctld": {"stdout": said}}
    return value("slurm_metrics", f"__slurm_metrics_{name}", **given, **options)


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
    assert found("native", said, config, source=source) is native
    assert found("problems", said, config, source=source) == []


@pytest.mark.parametrize(
    ("config", "user"), [({}, "busbar-metrics"), (PRIVATE, "slurm"), ({"privatedata": "jobs"}, "slurm")]
)
def test_user(config: dict[str, str], user: str) -> None:
    assert found("user", OLD, config) == user


@pytest.mark.parametrize(
    ("said", "config", "changes", "key", "problem"),
    [
        (OLD, ON, {"source": "openmetrics"}, "source", "needs Slurm 25.11 or newer (found slurm 24.11.5"),
        (NEW, {}, {"source": "openmetrics"}, "source", "slurm_config does not enable it"),
        (NEW, PRIVATE, {"source": "openmetrics"}, "source", "PrivateData or MetricsAuthUsers"),
        (OLD, {}, {"interval": 4, "timeout": 2}, "interval", "4 s is below"),
        (OLD, {}, {"interval": 10}, "timeout", "10 s is not between 1 s and half"),
        (OLD, {}, {"memory_limit": "1 GB"}, "memory_limit", "1 GB is not a valid size"),
        (OLD, {}, {"memory_limit": "0"}, "memory_limit", "0 is not a valid size"),
        (OLD, {}, {"timeout": 0}, "timeout", "0 s is not between 1 s and half"),
        (OLD, {}, {"jobs_limit": 0}, "jobs_limit", "is below 1"),
    ],
)
def test_problems(said: str, config: dict[str, str], changes: dict[str, Any], key: str, problem: str) -> None:
    (one,) = found("problems", said, config, **changes)
    assert (one["hosts"], one["key"]) == (["gpu7"], f"slurm_metrics_{key}")
    assert problem in one["problem"]
    assert one["remedy"]
