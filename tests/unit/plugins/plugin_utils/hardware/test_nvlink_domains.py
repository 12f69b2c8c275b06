"""Tests of comparing declared NVLink domains with the fabric of the GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.hardware.nvlink_domains import domain_claims

ONE, TWO = "11111111-0000-0000-0000-000000000001", "22222222-0000-0000-0000-000000000002"


def gpus(uuid: str | None, clique: int | None = 1) -> dict[str, Any]:
    return {"gpus": [{"fabric": {"cluster_uuid": uuid, "clique_id": clique}}] * 4}


RACKS = {"a1": "rack1", "a2": "rack1", "b1": "rack2"}


@pytest.mark.parametrize(
    ("domains", "facts", "told"),
    [
        (RACKS, {"a1": gpus(ONE), "a2": gpus(ONE), "b1": gpus(TWO)}, []),
        (RACKS, {"a1": gpus(ONE, 1), "a2": gpus(ONE, 1), "b1": gpus(ONE, 2)}, []),
        (
            RACKS,
            {"a1": gpus(ONE), "a2": gpus(TWO)},
            [(["a1", "a2"], "rack1 contains several NVLink domains: a1: 11111111")],
        ),
        (RACKS, {"a1": gpus(ONE, 1), "a2": gpus(ONE, 2)}, [(["a1", "a2"], "clique 2")]),
        (RACKS, {"a1": gpus(ONE), "b1": gpus(ONE)}, [(["a1", "b1"], "rack1 and rack2 are one NVLink domain")]),
        # A cluster UUID of zeros means that the fabric manager has not registered the GPUs.
        (RACKS, {"a1": gpus("00000000-0000-0000-0000-000000000000", 0), "a2": gpus(ONE)}, []),
        (RACKS, {"a1": gpus(None, None), "a2": {}}, []),
        ({"g1": "", "g2": ""}, {"g1": gpus(ONE), "g2": gpus(ONE)}, []),
    ],
)
def test_contradictions_to_the_declared_domains_are_reported(
    domains: dict[str, str], facts: dict[str, Any], told: list[tuple[list[str], str]]
) -> None:
    found = domain_claims(domains, facts)
    assert [problem["hosts"] for problem in found] == [hosts for hosts, _ in told]
    for problem, (_, words) in zip(found, told, strict=True):
        assert problem["key"] == "nvlink_domain"
        assert words in problem["problem"]
        assert "ClusterUUID" in problem["remedy"]
