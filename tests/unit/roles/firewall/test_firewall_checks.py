"""Tests of invalid options of the firewall, and of rules that would lock out the current run."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.firewall.checks import check

GOOD: dict[str, Any] = {
    "cluster": ["10.0.0.0/24", "10.0.1.7", "fd00::/64"],
    "admin_networks": ["192.0.2.0/28"],
    "user_networks": ["0.0.0.0/0", "::/0"],
    "job_ports": "10000-65535",
    "open": [],
}


def said(options: dict[str, Any], seen: list[str]) -> list[str]:
    found = check({**GOOD, **options}, {"groups": ["slurm_login"], "host": "gpu1", "seen": seen})
    assert all(problem["hosts"] == ["gpu1"] and problem["remedy"] for problem in found)
    return [f"{problem['key']}: {problem['problem']}" for problem in found]


@pytest.mark.parametrize(
    "address", ["", "10.0.0.5", "10.0.1.7", "192.0.2.3", "::ffff:192.0.2.3", "fd00::9", "fd00::9%eth0"]
)
def test_run_from_the_cluster_or_from_admins_is_accepted(address: str) -> None:
    assert said({}, [f"from {address}"]) == []


@pytest.mark.parametrize("address", ["10.0.1.8", "192.0.2.16", "fd00:0:0:1::9", "::1", "nonsense"])
def test_run_that_the_rules_would_lock_out_is_reported(address: str) -> None:
    assert said({}, [f"from {address}"]) == [
        f"firewall_admin_networks: lacks {address}, the source of this run, which the rules would block"
    ]


@pytest.mark.parametrize("name", ["firewalld", "ufw"])
def test_active_other_firewall_is_reported_with_the_remedy(name: str) -> None:
    (found,) = check(GOOD, {"groups": [], "host": "gpu1", "seen": ["from 10.0.0.5", f"active {name}"]})
    assert (found["key"], name in found["problem"]) == ("firewall_enabled", True)
    assert "disable" in found["remedy"]


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"cluster": ["gpu7"]}, "firewall_cluster: 'gpu7'"),
        ({"cluster": ["10.0.0.1/24"]}, "firewall_cluster: '10.0.0.1/24'"),
        ({"admin_networks": ["10.0.0.0/33"]}, "firewall_admin_networks: '10.0.0.0/33'"),
        ({"user_networks": ["everybody"]}, "firewall_user_networks: 'everybody'"),
        ({"job_ports": "65535-10000"}, "firewall_job_ports: '65535-10000'"),
        ({"job_ports": "all"}, "firewall_job_ports: 'all'"),
        ({"open": [{"service": "x", "ports": ["70000"], "from": ["users"]}]}, "firewall_open: x: '70000'"),
        ({"open": [{"service": "x", "ports": ["0"], "from": ["users"]}]}, "firewall_open: x: '0'"),
        ({"open": [{"service": "x", "ports": ["80 accept"], "from": ["users"]}]}, "firewall_open: x: '80 accept'"),
        ({"open": [{"service": "x", "ports": ["80"], "from": ["slurm_logins"]}]}, "firewall_open: x: 'slurm_logins'"),
    ],
)
def test_values_that_nft_would_refuse_are_reported_with_their_option(options: dict[str, Any], key: str) -> None:
    found = said(options, ["from 10.0.0.5"] if "cluster" not in options else [])
    assert len(found) == 1
    assert found[0].startswith(key)


def test_ports_of_a_site_accept_groups_and_networks_as_sources() -> None:
    service = {"service": "x", "ports": ["80", "27000-27009"], "from": ["slurm_login", "anywhere", "198.51.100.0/24"]}
    assert said({"open": [service]}, []) == []
