"""Tests of problems with the options of a Slurm cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.cluster_problems import (
    external_database_problems,
    slurm_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_lines import inventory_node

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {
    "nodes": [inventory_node(name, {"hardware": "dgx"}) for name in ("gpu1", "gpu2")],
    "catalogue": {"dgx": {}},
    "controllers": ["ctl"],
    "databases": ["ctl"],
    "logins": ["login"],
    "partitions": [{"name": "batch", "default": True}],
    "groups": {"slurm_compute": ["gpu1", "gpu2"], "others": ["ctl"]},
}


def test_valid_declaration_has_no_problems() -> None:
    assert slurm_problems(**GOOD) == []
    assert slurm_problems(**{**GOOD, "databases": []}) == []


@pytest.mark.parametrize(
    ("change", "key", "says"),
    [
        ({"controllers": []}, "slurm_controller", "no controller"),
        ({"nodes": [inventory_node("gpu1", {"hardware": "x"})]}, "hardware", "unknown hardware 'x'"),
        ({"nodes": []}, "slurm_compute", "cannot run jobs"),
        ({"partitions": [{"name": "p", "groups": ["others"]}]}, "slurm_partitions[p]", "contains no compute node"),
        ({"partitions": [{"name": "p", "groups": []}]}, "slurm_partitions[p]", "groups is empty"),
        ({"partitions": [{"name": "p", "groups": ["nope"]}]}, "slurm_partitions[p]", "not in the inventory"),
        ({"partitions": [{"name": "p", "nodes": "gpu9"}]}, "slurm_partitions[p]", "is not a compute node"),
        ({"controllers": ["a", "b"]}, "slurm_state_shared", "not declared as shared"),
        (
            {"controllers": ["a", "b"], "state_shared": True, "state_directory": "/var/lib/slurm/slurmctld"},
            "slurm_state_directory",
            "is a local directory",
        ),
        ({"databases": ["a", "b", "c"]}, "slurm_database", "supports one backup"),
        ({"config": {"slurmctldparameters": "idle_on_node_suspend"}}, "slurm_config.SlurmctldParameters", "configless"),
        ({"config": {"StateSaveLocation": "/x"}}, "slurm_config.statesavelocation", "slurm_state_directory"),
        ({"config": {"SchedulerTyp": "x"}}, "slurm_config.SchedulerTyp", "is not a key of slurm.conf"),
        ({"topology": {"switches": [{"name": "s"}]}}, "slurm_topology", "neither nodes nor switches"),
        ({"topology": {"switches": [{"name": "s", "nodes": "gpu[1-3]"}]}}, "slurm_topology", "not a compute node"),
        ({"topology": {"switches": [{"name": "s", "nodes": "gpu1"}]}}, "slurm_topology", "not in a switch or block"),
        (
            {"accounting": {"accounts": [{"name": "a"}], "users": [{"name": "u", "accounts": ["a"]}]}, "databases": []},
            "slurm_accounts, slurm of users_accounts",
            "no host",
        ),
        ({"accounting": {"slurm_users": [{"name": "u"}]}}, "slurm_users", "merged into users_accounts"),
        ({"health": {"interval": 70000, "timeout_s": 10}}, "node_health_interval", "70000 s is out of range"),
        ({"health": {"interval": 300, "timeout_s": 60}}, "node_health_timeout_s", "60 s is out of range"),
        (
            {"accounting": {"users": [{"name": "u", "accounts": ["a"]}]}},
            "users_accounts[u].slurm",
            "account a",
        ),
    ],
)
def test_problems(change: dict[str, Any], key: str, says: str) -> None:
    problems = slurm_problems(**{**GOOD, **change})
    assert [problem["key"] for problem in problems] == [key]
    assert says in problems[0]["problem"]
    assert problems[0]["remedy"]


def test_values_that_sacctmgr_rejects_changes_or_ignores_are_refused() -> None:
    accounting = {
        "accounts": [
            {"name": "root", "limits": {"GrpTRES": "gres/gpu=8"}},
            {"name": "Physics"},
            {"name": "kid", "parent": "of_the_database", "fairshare": "lots"},
            {"name": "good", "fairshare": "parent", "qos": ["Short"], "default_qos": "short"},
            {"name": "gone", "state": "absent", "parent": "nope"},
        ],
        "users": [
            {"name": "u", "accounts": ["good"], "qos": ["normal", "of_the_database"], "default_qos": "short"},
            {"name": "v", "accounts": ["gone"]},
        ],
        "qos": [
            {"name": "short", "flags": ["DenyOnLimits", "nodecay", "OfANewerSlurm"], "priority": -1},
            {"name": "fine", "preempt": ["short"]},
        ],
    }
    found = [
        (each["key"], each["problem"], each["remedy"]) for each in slurm_problems(**{**GOOD, "accounting": accounting})
    ]
    assert [key for key, _, _ in found] == [
        "users_accounts[v].slurm",
        "slurm_accounts[Physics]",
        "slurm_accounts[kid].fairshare",
        "users_accounts[u].slurm.default_qos",
        "slurm_qos[short].priority",
        "slurm_qos[short].flags",
    ]
    assert found[0][1] == "account gone is not declared"
    assert found[1][2] == "write physics"
    assert found[3][1] == "short is not in qos (normal, of_the_database)"
    assert found[5][2] == "did you mean DenyOnLimit?"


def test_absent_user_needs_no_accounting() -> None:
    change = {"accounting": {"users": [{"name": "u", "state": "absent"}]}, "databases": []}
    assert slurm_problems(**{**GOOD, **change}) == []


def test_shared_state_allows_a_backup_controller() -> None:
    change = {"controllers": ["a", "b"], "state_shared": True, "state_directory": "/shared/slurm"}
    assert slurm_problems(**{**GOOD, **change}) == []


def test_configless_can_be_part_of_a_list() -> None:
    assert slurm_problems(**GOOD, config={"SlurmctldParameters": ["x", "enable_configless"]}) == []


def test_remedy_suggests_the_nearest_key() -> None:
    problems = slurm_problems(**{**GOOD, "config": {"maxjobcont": 5}})
    assert problems[0]["remedy"] == "did you mean MaxJobCount?"


def test_external_database_options_are_checked(tmp_path: Path) -> None:
    authority, text = tmp_path / "ca.pem", tmp_path / "text.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----\n")
    text.write_text("no certificate")
    good = {"host": "sql.example.org", "port": 3307, "ca_file": str(authority)}
    assert external_database_problems({}, [], has_password=False) == []
    assert external_database_problems(good, ["ctl", "login"], has_password=True) == []
    assert external_database_problems({"host": "localhost"}, ["ctl"], has_password=True) == []
    wrong = {"host": "localhost", "port": 70000, "ca_file": str(text)}
    found = external_database_problems(wrong, ["ctl", "login"], has_password=False)
    assert [(each["key"], each["hosts"]) for each in found] == [
        ("slurm_database_external.host", ["ctl", "login"]),
        ("slurm_database_external.port", []),
        ("slurm_database_external.ca_file", []),
        ("slurm_database_password", []),
    ]
    (zero,) = external_database_problems(good | {"port": 0}, ["ctl"], has_password=True)
    assert zero["key"] == "slurm_database_external.port"
    for file in ("ca.pem", str(tmp_path / "missing.pem"), str(tmp_path)):
        (one,) = external_database_problems(good | {"ca_file": file}, ["ctl"], has_password=True)
        assert f"{file} is not a PEM certificate file" in one["problem"]
    (none,) = external_database_problems(good, [], has_password=True)
    assert "slurm_database" in none["remedy"]
