"""Tests of problems with groups of hosts and partitions."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.cluster_roles import (
    partition_problems,
    role_problems,
)


@pytest.mark.parametrize(
    ("controllers", "databases", "logins", "compute", "keys"),
    [
        (["ctl"], ["ctl"], ["login"], ["gpu1"], []),
        ([], [], [], [], []),
        ([], ["ctl"], [], ["gpu1"], ["slurm_controller"]),
        (["ctl"], [], [], ["gpu1"], ["slurm_database"]),
        (["ctl"], ["ctl"], [], [], ["slurm_compute"]),
        (["ctl"], ["ctl"], ["gpu1"], ["gpu1"], ["slurm_login"]),
        (["gpu1"], ["gpu1"], [], ["gpu1"], []),
    ],
)
def test_roles_of_hosts_are_checked(
    controllers: list[str], databases: list[str], logins: list[str], compute: list[str], keys: list[str]
) -> None:
    assert [problem["key"] for problem in role_problems(controllers, databases, logins, compute)] == keys


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([{"name": "batch", "default": True}], []),
        ([{"name": "p", "nodes": "gpu[1-2]"}], []),
        ([{"name": "p", "nodes": ["gpu1", "gpu2"]}], []),
        ([{"name": "p", "groups": ["big"]}], []),
        ([{"name": "p", "nodes": "gpu[1-"}], [([], "slurm_partitions[p]")]),
        ([{"name": "p", "nodes": "gpu[2-3],ctl"}], [(["ctl", "gpu3"], "slurm_partitions[p]")]),
        ([{"name": "p", "nodes": "big"}], [([], "slurm_partitions[p]")]),
        ([{"name": "p", "groups": ["none"]}], [([], "slurm_partitions[p]")]),
        ([{"name": "p", "groups": ["empty"]}], [([], "slurm_partitions[p]")]),
        ([{"name": "big nodes"}], [([], "slurm_partitions[big nodes]")]),
        ([{"name": "p"}, {"name": "p"}], [([], "slurm_partitions[p]")]),
        ([{"name": "p", "default": True}, {"name": "q", "default": True}], [([], "slurm_partitions")]),
    ],
)
def test_partitions(partitions: list[dict[str, Any]], expected: list[tuple[list[str], str]]) -> None:
    groups = {"big": ["gpu1"], "empty": []}
    problems = partition_problems(partitions, groups, ["gpu1", "gpu2"])
    assert [(problem["hosts"], problem["key"]) for problem in problems] == expected
