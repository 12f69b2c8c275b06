"""Tests of ceilings, compared with published values."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.ceilings import (
    ceilings,
    effective_nvlink,
    in_network,
    nvls,
)


def profile(nvlink: float, gpus: int = 8, nics: int = 8, gbps: float = 400, domain: int = 1) -> dict[str, Any]:
    return {
        "gpu": {"count": gpus, "nvlink_gbs": nvlink},
        "nics": [{"count": nics, "gbps": gbps, "rdma": True}],
        "nvlink_domain_nodes": domain,
    }


@pytest.mark.parametrize(("line", "effective"), [(150, 120), (300, 240), (450, 370.8), (900, 721.8), (100, 80)])
def test_effective_nvlink(line: float, effective: float) -> None:
    assert effective_nvlink(line) == pytest.approx(effective)


@pytest.mark.parametrize(
    ("line", "ranks", "measured"),
    [
        (450, 2, 206.95),
        (450, 4, 376.5),
        (450, 8, 479.9),
        (450, 7, 460),
        (900, 6, 778.2),
        (900, 8, 838),
        (900, 8, 845.67),
    ],
)
def test_nvls_matches_published_values(line: float, ranks: int, measured: float) -> None:
    assert nvls(line, ranks) == pytest.approx(measured, rel=0.04)


def test_in_network() -> None:
    assert in_network(200, 1000) == pytest.approx(400, rel=2e-3)


@pytest.mark.parametrize(
    ("nodes", "wire", "limit"),
    [(1, 370.8, 490.3), (2, 370.8, 514.8), (10, 370.8, 514.8)],
)
def test_ceilings_of_an_h100_node(nodes: int, wire: float, limit: float) -> None:
    found = ceilings(profile(450), nodes)
    assert found["wire"] == pytest.approx(wire, rel=1e-3)
    assert found["limit"] == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize(("gbps", "wire"), [(1, 0.125), (10, 1.25), (25, 3.125), (100, 12.5)])
def test_one_gpu_per_node_is_bound_by_the_nic(gbps: float, wire: float) -> None:
    lab = profile(0, gpus=1, nics=1, gbps=gbps)
    lab["nics"][0]["rdma"] = False
    found = ceilings(lab, 3)
    assert (found["wire"], found["limit"]) == (wire, wire)


def test_rack_is_one_nvlink_domain() -> None:
    rack = profile(900, gpus=4, nics=4, domain=18)
    assert ceilings(rack, 18)["wire"] == pytest.approx(721.8)
    assert ceilings(rack, 36)["inside"] == pytest.approx(721.8)


@pytest.mark.parametrize("collective", ["all_gather", "alltoall", "broadcast"])
def test_other_collectives_do_not_reduce_in_the_switch(collective: str) -> None:
    assert ceilings(profile(450), 1, collective=collective)["limit"] == pytest.approx(370.8)


@pytest.mark.parametrize(
    ("nodes", "limit"),
    # The limit falls from two NICs' worth with two nodes to one with many: 10 nodes of 8 H100 were measured at 50.38.
    [(1, 370.8), (2, 93.75), (10, 54.86), (1000, 50.04)],
)
def test_alltoall_shares_the_nics_among_its_ranks(nodes: int, limit: float) -> None:
    assert ceilings(profile(450), nodes, collective="alltoall")["limit"] == pytest.approx(limit, abs=0.01)
