"""Tests of invalid options of fail2ban, and of options that would ban the provisioning host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.fail2ban.checks import check

GOOD: dict[str, Any] = {
    "cluster": ["10.0.0.0/24"],
    "trusted": ["192.0.2.7", "2001:db8::/64"],
    "max_retry": 5,
    "find_time_s": 600,
    "ban_time_s": "3600",
}


@pytest.mark.parametrize("address", ["10.0.0.9", "192.0.2.7", "2001:db8::1", "::ffff:10.0.0.9", ""])
def test_provisioning_from_a_known_address_is_accepted(address: str) -> None:
    assert check(GOOD, {"host": "login", "seen": [f"from {address}"]}) == []


@pytest.mark.parametrize(
    ("change", "seen", "key", "says"),
    [
        ({"max_retry": 0}, "", "fail2ban_max_retry", "0 is below 1"),
        ({"ban_time_s": -1}, "", "fail2ban_ban_time_s", "-1 is below 1"),
        ({"trusted": ["admins"]}, "", "fail2ban_trusted", "'admins' is not a valid IP address or network"),
        ({}, "from 203.0.113.7", "fail2ban_trusted", "a few failed logins would ban"),
    ],
)
def test_impossible_combinations_are_reported(change: dict[str, Any], seen: str, key: str, says: str) -> None:
    (problem,) = check(GOOD | change, {"host": "login", "seen": [seen]})
    assert (problem["key"], problem["hosts"]) == (key, ["login"])
    assert says in problem["problem"]
    assert problem["remedy"]
