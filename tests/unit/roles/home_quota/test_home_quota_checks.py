"""Tests of invalid options of quotas."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.home_quota.checks import check

GOOD = {"default": "200G", "users": {"bob": "1T"}, "soft_percent": 90, "path": "/shared/home"}
EXPORTS = {"nfs1": [{"path": "/shared"}]}


@pytest.mark.parametrize(
    ("changed", "exports", "key", "problem"),
    [
        ({"default": "20"}, EXPORTS, "home_quota_default", "'20' is not a valid size"),
        ({"users": {"bob": "much"}}, EXPORTS, "home_quota_users.bob", "'much' is not a valid size"),
        ({"users": {"-b": "1T"}}, EXPORTS, "home_quota_users", "'-b' is not a valid user name"),
        ({"soft_percent": 0}, EXPORTS, "home_quota_soft_percent", "0 is not between 1 and 100"),
        ({"path": "/home"}, EXPORTS, "home_quota_default", "no host in the group nfs_server exports /home"),
        ({"path": "/shared2/home"}, EXPORTS, "home_quota_default", "exports /shared2/home"),
        ({}, {}, "home_quota_default", "exports /shared/home"),
    ],
)
def test_invalid_values_are_refused(
    changed: dict[str, Any], exports: dict[str, list[dict[str, Any]]], key: str, problem: str
) -> None:
    assert check(GOOD, {"exports": EXPORTS, "host": "ctl"}) == []
    assert check(GOOD | {"default": "", "users": {}, "path": "/x"}, {"exports": {}, "host": "ctl"}) == []
    (found,) = check(GOOD | changed, {"exports": exports, "host": "ctl"})
    assert (found["hosts"], found["key"]) == (sorted(exports) or ["ctl"], key)
    assert problem in found["problem"]
    assert found["remedy"]
