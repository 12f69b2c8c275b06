"""Which versions are too old, and that each minimum says where it comes from."""

from __future__ import annotations

import re

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.minimum_versions import (
    AS_OF,
    MINIMUMS,
    is_below,
)


@pytest.mark.parametrize(
    ("key", "version", "needed"),
    [
        ("driver", "580.159.03", ""),
        ("driver", "580.95.05", "580.159.03"),
        ("driver", "535.309.01", ""),
        ("driver", "550.163.01", "570.211.01"),
        ("driver", "470.256.02", "535.309.01"),
        ("driver", "600.1.1", ""),
        ("container_toolkit", "1.19.1-1", ""),
        ("container_toolkit", "1.17.8-1", "1.19.1"),
        ("cuda", "13.1", ""),
        ("cuda", "12.9", "13.1"),
        ("dcgm", "1:4.5.3-1", ""),
        ("dcgm", "1:4.4.2-1", "4.5.3"),
        ("dcgm", "1:3.3.9", "4.5.3"),
        ("dcgm_exporter", "4.10.0-1", ""),
        ("dcgm", "", ""),
        ("driver", "unknown", ""),
    ],
)
def test_what_is_too_old(key: str, version: str, needed: str) -> None:
    assert is_below(version, MINIMUMS[key]) == needed


def test_each_minimum_has_a_source_with_its_day() -> None:
    for minimum in MINIMUMS.values():
        days = re.findall(r"https://\S+, (\d{4}-\d{2}-\d{2})", minimum.source)
        assert days
        assert max(days) <= AS_OF
