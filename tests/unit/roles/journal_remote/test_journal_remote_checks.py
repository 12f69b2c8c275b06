"""Invalid options of the role journal_remote are reported with their names and a remedy."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.roles.journal_remote.checks import check

GOOD = {
    "receiver": "ctl",
    "address": "10.0.0.1",
    "port": 19532,
    "max_use": "20G",
    "keep_free": "5G",
    "max_file_size": "128M",
    "max_age_days": 30,
    "rotate_days": 7,
}


def test_defaults_are_valid() -> None:
    assert check(GOOD, {"host": "gpu1"}) == []
    assert check(GOOD | {"port": "19532", "max_use": "1T", "keep_free": "1048576"}, {"host": "gpu1"}) == []


@pytest.mark.parametrize(
    ("changed", "key", "problem"),
    [
        ({"receiver": ""}, "receiver", "no host receives the journals"),
        ({"address": ""}, "receiver_address", "is empty"),
        ({"port": 0}, "port", "0 is not a number"),
        ({"port": 65536}, "port", "65536 is not a number"),
        ({"max_use": "lots"}, "max_use", "'lots' is not a valid size"),
        ({"keep_free": "10%"}, "keep_free", "'10%' is not a valid size"),
        ({"max_file_size": "64MB"}, "max_file_size", "'64MB' is not a valid size"),
        ({"max_file_size": "21G"}, "max_file_size", "is larger than journal_remote_max_use, the limit of all journals"),
        ({"max_age_days": "a month"}, "max_age_days", "'a month' is not a number"),
        ({"rotate_days": 31}, "rotate_days", "is longer than journal_remote_max_age_days"),
    ],
)
def test_wrong_options_are_reported(changed: dict[str, object], key: str, problem: str) -> None:
    (found,) = check(GOOD | changed, {"host": "gpu1"})
    assert (found["hosts"], found["key"], found["problem"]) == (["gpu1"], f"journal_remote_{key}", problem)
    assert found["remedy"]
