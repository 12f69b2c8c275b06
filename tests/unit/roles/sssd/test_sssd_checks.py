"""Tests of the checks of identity sources: errors have a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.busbar.cluster.roles.sssd.checks import check

OWN = {
    "identity_source": "ldap_server",
    "identity_server": "ctl",
    "servers": [],
    "identity_port": 636,
    "identity_suffix": "dc=cluster,dc=internal",
    "identity_groups": ["cluster-users"],
    "identity_locked_group": "cluster-locked",
    "sssd_uris": ["ldaps://ctl:636"],
    "sssd_base": "dc=cluster,dc=internal",
    "sssd_bind_dn": "cn=reader,ou=services,dc=cluster,dc=internal",
    "has_password": True,
    "sssd_start_tls": False,
    "sssd_min_id": 1000,
    "sssd_cache_seconds": 600,
}
EXTERNAL = OWN | {
    "identity_source": "external",
    "identity_server": "",
    "sssd_uris": ["ldaps://[2001:db8::1]:636", "ldaps://ldap.example.org/"],
}


def test_valid_options_are_accepted() -> None:
    assert check(OWN, {"known": ["ctl"], "host": "gpu1"}) == []
    assert check(EXTERNAL, {"known": ["ctl"], "host": "gpu1"}) == []
    plain = {"sssd_uris": ["ldap://ldap.example.org"], "sssd_start_tls": True}
    assert check(EXTERNAL | plain, {"known": ["ctl"], "host": "gpu1"}) == []
    assert check({"identity_source": "declared"}, {"known": [], "host": "gpu1"}) == []


@pytest.mark.parametrize(
    ("changed", "key", "problem"),
    [
        ({"identity_source": "ldap"}, "identity_source", "'ldap' is not known"),
        ({"identity_server": ""}, "identity_server", "no host runs the directory server"),
        ({"identity_server": "ctrl"}, "identity_server", "'ctrl' is not in the inventory"),
        ({"servers": ["ctl", "login"]}, "ldap_server", "has several hosts (found also login, expected only ctl)"),
        ({"identity_port": 70000}, "identity_port", "70000 is not a valid port"),
        ({"identity_suffix": 'dc="x'}, "identity_suffix", "is not a valid directory suffix"),
        ({"identity_suffix": "cluster"}, "identity_suffix", "is not a valid directory suffix"),
        ({"identity_groups": []}, "identity_groups", "all users of the directory could log in"),
        ({"identity_groups": ["a, b"]}, "identity_groups", "'a, b' is not a valid group name"),
        ({"identity_locked_group": "a\nb"}, "identity_locked_group", "is not a valid group name"),
        ({"has_password": False}, "sssd_bind_dn", "must be set together with sssd_bind_password"),
        ({"sssd_min_id": 0}, "sssd_min_id", "0 is below 1000"),
        ({"sssd_cache_seconds": 0}, "sssd_cache_seconds", "0 is below 1"),
        ({"identity_source": "external", "sssd_uris": []}, "sssd_uris", "is empty"),
        ({"identity_source": "external", "sssd_base": ""}, "sssd_base", "is empty"),
        ({"sssd_uris": ["ctl"]}, "sssd_uris", "'ctl' is not a valid LDAP URI"),
        ({"sssd_uris": ["ldaps://ctl:a"]}, "sssd_uris", "is not a valid LDAP URI"),
        ({"sssd_uris": ["ldapi:///"]}, "sssd_uris", "is not a valid LDAP URI"),
        ({"sssd_uris": ["ldaps://ctl"], "sssd_start_tls": True}, "sssd_start_tls", "already uses TLS"),
    ],
)
def test_invalid_options_are_reported(changed: dict[str, object], key: str, problem: str) -> None:
    (found,) = check(OWN | changed, {"known": ["ctl"], "host": "gpu1"})
    assert (found["hosts"], found["key"]) == (["gpu1"], key)
    assert problem in found["problem"]
    assert found["remedy"]


def test_address_without_tls_is_refused() -> None:
    (found,) = check(EXTERNAL | {"sssd_uris": ["ldap://ldap.example.org"]}, {"known": [], "host": "gpu1"})
    assert found["problem"] == "ldap://ldap.example.org does not use TLS, so passwords would be sent as plain text"
    assert "ldaps://" in found["remedy"]


def test_interval_between_attempts_to_reach_the_directory_does_not_grow() -> None:
    variables = Path(__file__).resolve().parents[4] / "roles/sssd/vars/main.yml"
    (domain,) = (
        value
        for value in yaml.safe_load(variables.read_text(encoding="utf-8")).values()
        if isinstance(value, dict) and "ldap_opt_timeout" in value
    )
    assert domain["offline_timeout_max"] == 0
