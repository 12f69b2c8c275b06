"""Options of the directory that are out of bounds are refused."""

from __future__ import annotations

from ansible_collections.busbar.cluster.roles.ldap_server.checks import check

GOOD = {"database_mb": 1024, "first_number": 20000, "password_min_length": 12}


def test_options_out_of_bounds_are_refused() -> None:
    assert check(GOOD, {"host": "ctl"}) == []
    for key, value in {"database_mb": 1, "first_number": 500, "password_min_length": 4}.items():
        (found,) = check(GOOD | {key: value}, {"host": "ctl"})
        assert (found["hosts"], found["key"]) == (["ctl"], f"ldap_server_{key}")
        assert f"{value} is not between" in found["problem"]
