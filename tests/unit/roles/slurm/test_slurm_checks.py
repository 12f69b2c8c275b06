"""Tests of the checks of the role slurm's options."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.slurm.checks import SITE_OPTIONS, check_external


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, []),
        ({"slurm_external": {"prefix": "/opt/slurm", "config": "/etc/slurm"}}, []),
        ({"slurm_external": {"config": "/etc/slurm"}}, ["slurm_external.prefix"]),
        ({"slurm_external": {"prefix": "opt", "config": "etc"}}, ["slurm_external.prefix", "slurm_external.config"]),
        ({"slurm_external": {"prefix": "/usr"}}, ["slurm_external.prefix"]),
        (
            {
                "slurm_external": {"prefix": "/opt/slurm"},
                "slurm_repository": {"release": "26.05"},
                "slurm_spank_plugins": [{"name": "x"}],
            },
            ["slurm_repository", "slurm_spank_plugins"],
        ),
    ],
)
def test_external_slurm_needs_a_prefix_and_no_packages(options: dict[str, Any], keys: list[str]) -> None:
    assert [problem["key"] for problem in check_external(SITE_OPTIONS | options, {})] == keys
