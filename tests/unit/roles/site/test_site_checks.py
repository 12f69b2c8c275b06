"""Tests of requests to replace nodes, and of their errors."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.roles.site.checks import check_replacement

GROUPS = {"slurm_controller": ["ctl"], "slurm_compute": ["gpu1", "gpu2", "both"], "nfs_server": ["both"]}


@pytest.mark.parametrize(
    ("asked", "fingerprints", "said"),
    [
        ("gpu[1-2]", [f"SHA256:{'a' * 43}"], []),
        ("", [], ["names no node"]),
        ("gpu[1", [], ["is not a list of hosts"]),
        ("gpu3", [], ["not a compute node of the inventory; did you mean gpu"]),
        ("ctl,both", [], ["both is in the group nfs_server", "ctl is in the group slurm_controller"]),
        ("gpu1", ["SHA256:short"], ["'SHA256:short' is not a fingerprint"]),
    ],
)
def test_problems(asked: str, fingerprints: list[str], said: list[str]) -> None:
    found = check_replacement(asked, {"groups": GROUPS, "fingerprints": fingerprints})
    assert len(found) == len(said)
    for problem, words in zip(sorted(each["problem"] for each in found), said, strict=True):
        assert words in problem
    assert all(each["remedy"] for each in found)


def test_host_of_the_directory_is_not_replaced() -> None:
    (problem,) = check_replacement("gpu1", {"groups": {**GROUPS, "ldap_server": ["gpu1"]}, "fingerprints": []})
    assert "gpu1 is in the group ldap_server" in problem["problem"]
