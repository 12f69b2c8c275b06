"""Tests of the hosts that create the homes of users by default, depending on the declared storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from templates import worked_out

VARS = yaml.safe_load((Path(__file__).resolve().parents[3] / "roles/site/vars/main.yml").read_text())
CLIENTS = ["gpu1", "gpu2"]


def site(host: str = "", **of_host: object) -> dict[str, dict[str, Any]]:
    """Return the variables of each host of a site whose file server exports /shared."""
    found: dict[str, dict[str, Any]] = {"ctl": {"nfs_server_exports": [{"path": "/shared"}]}}
    return found | {name: {} for name in ("login", *CLIENTS)} | ({host: of_host} if host else {})


def makes_homes(base: str, host: str, variables: dict[str, dict[str, Any]], groups: dict[str, list[str]]) -> object:
    given = {"inventory_hostname": host, "groups": groups, "hostvars": variables, "users_home_base": base}
    return worked_out("{{ __site_makes_homes }}", **(VARS | variables[host] | given))


@pytest.mark.parametrize(
    ("base", "host", "variables", "here"),
    [
        ("/home", "gpu1", site(), True),
        ("/home", "ctl", site(), True),
        ("/shared/home", "ctl", site(), True),
        ("/shared", "ctl", site(), True),
        ("/shared2/home", "gpu1", site(), True),
        ("/shared/home", "gpu1", site(), False),
        ("/shared/home", "login", site(), True),
        ("/shared/home", "gpu1", site("gpu1", nfs_client_mounts=[]), True),
        ("/home", "gpu1", site("gpu1", nfs_client_mounts=[{"src": "ctl:/shared", "path": "/home"}]), False),
        ("/shared/home", "gpu1", site("ctl", nfs_server_exports=[{"path": "/shared", "mount": False}]), True),
        ("/lustre/home", "login", site("login", storage_mounts_entries=[{"path": "/lustre"}]), False),
        ("/lustre/home", "ctl", site("ctl", storage_mounts_entries=[{"path": "/lustre"}]), False),
        ("/shared/home", "ctl2", site("ctl2", nfs_server_exports=[{"path": "/shared"}]), False),
        ("/home", "ctl2", site("ctl2"), True),
    ],
)
def test_hosts_that_create_homes(base: str, host: str, variables: dict[str, Any], *, here: bool) -> None:
    groups = {"nfs_server": ["ctl", "ctl2"] if "ctl2" in variables else ["ctl"], "nfs_client": CLIENTS}
    assert makes_homes(base, host, variables, groups) is here


def test_without_storage_all_hosts_create_homes() -> None:
    assert makes_homes("/home", "gpu1", {"gpu1": {}}, {"all": ["gpu1"]}) is True


def test_provisioning_host_does_not_create_homes() -> None:
    names = ["gpu2", "localhost", "ctl", "127.0.0.1", "localhost2", "my host", "gpu1"]
    assert worked_out("{{ __site_hosts }}", **(VARS | {"groups": {"all": names}})) == [
        "gpu2",
        "ctl",
        "localhost2",
        "my host",
        "gpu1",
    ]
