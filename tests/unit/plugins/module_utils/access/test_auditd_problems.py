"""Where auditd cannot work, and options that are out of bounds."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.auditd_problems import auditd_problems

GOOD = {"log_mb": 32, "log_files": 8}


@pytest.mark.parametrize("seen", [[], ["container none"], ["container none", "audit=1"]])
def test_a_machine_is_fine(seen: list[str]) -> None:
    assert auditd_problems(GOOD, "gpu1", seen) == []


@pytest.mark.parametrize(
    ("change", "seen", "key", "said"),
    [
        ({}, ["container podman"], "enabled", "this host is a container (podman)"),
        ({}, ["container none", "audit=0"], "enabled", "the kernel was started with audit=0"),
        ({}, ["container none", "no audit"], "enabled", "the kernel was built without audit"),
        ({"log_files": 1}, [], "log_files", "1 is not between 2 and 999"),
        ({"log_mb": 0}, [], "log_mb", "0 is not between 1 and 4095"),
    ],
)
def test_what_is_refused(change: dict[str, int], seen: list[str], key: str, said: str) -> None:
    (problem,) = auditd_problems(GOOD | change, "gpu1", seen)
    assert problem["key"] == f"auditd_{key}"
    assert said in problem["problem"]
    assert problem["hosts"] == ["gpu1"]
