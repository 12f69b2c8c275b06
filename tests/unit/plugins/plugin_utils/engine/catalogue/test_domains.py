"""Tests of floors for nodes of NVLink racks."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.ceilings import ceilings
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.floors import (
    domain_problem,
    domain_sizes,
    placed_floor,
    scope_of,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue

CATALOGUE = site_catalogue({})
RACK = CATALOGUE["gb200_nvl72"]
RACKS = {"a1": "rack1", "a2": "rack1", "b1": "rack2", "x1": ""}


@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [
        (["a1", "a2"], (2,)),
        (["a1", "b1"], (1, 1)),
        (["b1", "a1", "a2"], (2, 1)),
        (["a1", "x1"], None),
        (["a1", "nobody"], None),
        ([], None),
    ],
)
def test_domains_of_nodes(nodes: list[str], sizes: tuple[int, ...] | None) -> None:
    assert domain_sizes(nodes, RACKS) == sizes


@pytest.mark.parametrize(
    ("hardware", "nodes", "sizes", "scope"),
    [
        ("gb200_nvl72", 1, None, "intra_node"),
        ("gb200_nvl72", 2, (2,), "inter_node"),
        ("gb200_nvl72", 18, (18,), "inter_node"),
        ("gb200_nvl72", 2, (1, 1), "inter_domain"),
        ("gb200_nvl72", 18, (10, 8), "inter_domain"),
        ("gb200_nvl72", 36, (18, 18), "inter_domain"),
        ("gb200_nvl72", 2, None, ""),
        ("gb200_nvl72", 36, None, ""),
        ("gb200_nvl72", 19, (19,), ""),
        ("gb200_nvl72", 3, (2,), ""),
        ("dgx_h100", 2, None, "inter_node"),
        ("dgx_h100", 40, None, "inter_node"),
    ],
)
def test_scope(hardware: str, nodes: int, sizes: tuple[int, ...] | None, scope: str) -> None:
    assert scope_of(CATALOGUE[hardware], nodes, sizes) == scope
    assert bool(domain_problem(CATALOGUE[hardware], nodes, sizes)) is (scope == "")


@pytest.mark.parametrize(
    ("nodes", "sizes", "floor"),
    [
        (2, (2,), 730.0),
        (18, (18,), 750.0),
        (36, (18, 18), 600.0),
        (54, (18, 18, 18), 590.0),
        (72, (18,) * 4, 300.0),
        # One tray has 4 x 400 Gb/s = 200 GB/s: the floor of whole racks would fail a healthy network.
        (2, (1, 1), 180.0),
        (3, (1, 1, 1), 150.0),
        (19, (18, 1), 180.0),
        (4, (2, 2), 360.0),
        (2, None, None),
    ],
)
def test_floor_does_not_exceed_the_bandwidth_of_the_trays_nics(
    nodes: int, sizes: tuple[int, ...] | None, floor: float | None
) -> None:
    found, source, _best = placed_floor(RACK, nodes, sizes, "all_reduce")
    assert found == floor
    assert (source is None) is (floor is None)
    if found is not None and sizes is not None and len(sizes) > 1:
        assert found <= ceilings(RACK, nodes, sizes=sizes)["wire"]


def test_ceiling_between_racks_follows_the_rack_with_fewest_trays() -> None:
    def wire(sizes: tuple[int, ...]) -> Any:  # noqa: ANN401 - of ceilings
        return ceilings(RACK, sum(sizes), sizes=sizes)["wire"]

    assert wire((1, 1)) == wire((18, 1)) == pytest.approx(200)
    assert wire((2, 2)) == pytest.approx(400)
    assert wire((2,)) == pytest.approx(721.8)
