"""Limits that healthy nodes would exceed are refused before a node is changed."""

from __future__ import annotations

import re

import pytest
from plays import play_of, played

# With these limits a constant counter, a correct clock or a responding nvidia-smi would be a fault.
BROKEN = {
    "node_health_drain_percent": 0,
    "node_health_pcie_replays_per_minute": -1,
    "node_health_nvlink_crc_per_second": 0,
    "node_health_link_flaps": 0,
    "node_health_link_flaps_hours": 169,
    "node_health_infiniband_errors": 0,
    "node_health_clock_offset_s": 0,
    "node_health_timeout_s": 0,
    "node_health_repair_limit": 0,
}
HOSTS = {
    "broken": BROKEN,
    "misspelt": {"node_health_severities": {"clocks": "MONITOR"}},
    "defaults": {},
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of one check of the options of all hosts."""
    return played(tmp_path_factory.mktemp("site"), play_of("node_health", "options"), {"hosts": HOSTS})[1]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (
            "broken",
            [*(f"broken: {name}: " for name in BROKEN), "out of bounds", "a number above 0 and at most 100"],
        ),
        ("misspelt", ["misspelt: node_health_severities.clocks: ", "did you mean clock?"]),
    ],
)
def test_limits_that_healthy_nodes_would_exceed_are_refused(said: str, host: str, expected: list[str]) -> None:
    assert [words for words in expected if words not in said] == []
    assert re.search(rf"{host} : ok=1 changed=0 unreachable=0 failed=1 ", said), said


def test_the_defaults_are_accepted(said: str) -> None:
    assert re.search(r"defaults : ok=\d+ changed=0 unreachable=0 failed=0 ", said), said
