"""Tests of the health check and job script keys of slurm.conf."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.config_from_inventory import slurm_plan

CATALOGUE: dict[str, Any] = {
    name: {"sockets": 1, "cores_per_socket": 4, "threads_per_core": 1, "memory_mb": 2048, "gpu": gpu}
    for name, gpu in (("plain", None), ("sim", {"count": 2, "slurm_type": "sim", "device_files": "/dev/nvidia[0-1]"}))
}
HEALTH = {"program": "/opt/health", "interval": "300", "states": ["IDLE", "CYCLE"], "timeout_s": "10"}
LINES = ["HealthCheckProgram=/opt/health", "HealthCheckInterval=300", "HealthCheckNodeState=IDLE,CYCLE"]


def health_lines(hardware: str, when: str, config: dict[str, Any]) -> list[str]:
    """Return the health check lines of slurm.conf of a cluster with one node of this hardware."""
    declared = {
        "own": {},
        "config": config,
        "catalogue": CATALOGUE,
        "controllers": ["ctl"],
        "databases": [],
        "logins": ["ctl"],
        "partitions": [{"name": "batch", "default": True}],
        "groups": {},
        "topology": {},
        "health": {**HEALTH, "when": when},
    }
    plan = slurm_plan(["gpu1"], {"gpu1": {"hardware": hardware}}, declared)
    assert plan["problems"] == []
    return [line for line in plan["config"] if line.lower().startswith("health")]


def test_job_scripts_are_called_through_their_directory() -> None:
    declared: dict[str, Any] = {
        "own": {"Prolog": "/old"},
        "config": {},
        "catalogue": CATALOGUE,
        "controllers": ["ctl"],
        "databases": [],
    }
    declared |= {"logins": ["ctl"], "partitions": [{"name": "batch", "default": True}], "groups": {}, "topology": {}}
    declared |= {"job_scripts": {"Prolog": ["/a", "/b"], "Epilog": "/c"}, "scripts_folder": "/lib"}
    plan = slurm_plan(["gpu1"], {"gpu1": {"hardware": "plain"}}, declared)
    assert [line for line in plan["config"] if "log=" in line] == ["Prolog=/lib/job_prolog", "Epilog=/c"]


@pytest.mark.parametrize(
    ("hardware", "when", "config", "lines"),
    [
        ("sim", "auto", {}, LINES),
        ("sim", "never", {}, []),
        ("plain", "auto", {}, []),
        ("plain", "always", {}, LINES),
        ("sim", "auto", {"healthcheckprogram": "/usr/sbin/nhc"}, [*LINES[1:], "healthcheckprogram=/usr/sbin/nhc"]),
    ],
)
def test_health_lines(hardware: str, when: str, config: dict[str, Any], lines: list[str]) -> None:
    assert sorted(health_lines(hardware, when, config)) == sorted(lines)
