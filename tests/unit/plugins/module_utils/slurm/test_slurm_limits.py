"""Tests of normalising accounting limits."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.accounting_limits import (
    ASSOCIATION_LIMITS,
    QOS_LIMITS,
    canonical_limits,
    normal_value,
)


@pytest.mark.parametrize(
    ("value", "kind", "normal"),
    [
        (None, "count", ""),
        (-1, "count", ""),
        ("", "tres", ""),
        (12, "count", "12"),
        ("012", "count", "12"),
        ("gres/gpu=2,cpu=4", "tres", "cpu=4,gres/gpu=2"),
        ("mem=10G", "tres", "mem=10240"),
        ("mem=10240M", "tres", "mem=10240"),
        ("mem=1.50G", "tres", "mem=1536"),
        ({"cpu": 4, "mem": "1T"}, "tres", "cpu=4,mem=1048576"),
        ("cpu=-1,node=2", "tres", "node=2"),
        (90, "minutes", "90"),
        ("1:30:00", "minutes", "90"),
        ("90:00", "minutes", "90"),
        ("0-01:30", "minutes", "90"),
        ("2-00:00:00", "minutes", "2880"),
        ("00:01:30", "minutes", "2"),
        ("UNLIMITED", "minutes", ""),
    ],
)
def test_normal_value(value: object, kind: str, normal: str) -> None:
    assert normal_value(value, kind) == normal


@pytest.mark.parametrize(
    ("value", "kind", "match"),
    [
        ("many", "count", "'many' is not a count"),
        ("cpu:4", "tres", "is not a list of resources"),
        ("cpu=lots", "tres", "is not a list of resources"),
        ("tomorrow", "minutes", "is not a time"),
    ],
)
def test_malformed_value(value: object, kind: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        normal_value(value, kind)


def test_short_names_and_case() -> None:
    assert canonical_limits({"maxtrespu": "cpu=2", "MAXWALL": "1:00:00", "GrpJobs": -1}, QOS_LIMITS) == {
        "MaxTRESPerUser": "cpu=2",
        "MaxWallDurationPerJob": "60",
    }


def test_error_names_the_limit() -> None:
    with pytest.raises(ValueError, match="limit GrpTRES: 'x'"):
        canonical_limits({"GrpTRES": "x"}, ASSOCIATION_LIMITS)
