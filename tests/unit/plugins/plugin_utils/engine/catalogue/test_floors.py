"""Tests of floors by number of nodes, compared with published values."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import profile_names
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.ceilings import (
    alltoall,
    ceilings,
    hierarchical,
    nic_rate,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.floors import (
    NONE,
    floor_for_count,
    placed_floor,
    scope_entry,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import (
    profile_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import Expected, judge

CATALOGUE = site_catalogue({})
CORPUS = Path(__file__).parents[7] / "shared" / "nccl" / "corpus"
ENTRY = {
    "floor_gbs": 300,
    "source": "any",
    "floors": [
        {"nodes": 2, "floor_gbs": 440, "best_gbs": 488, "source": "two"},
        {"nodes": 4, "floor_gbs": 320, "source": "four"},
        {"nodes": 8, "floor_gbs": 330, "source": "eight"},
    ],
    "in_network": {"floor_gbs": 348, "source": "sums"},
}


@pytest.mark.parametrize(
    ("count", "floor"), [(2, 440), (3, 320), (4, 320), (5, 320), (7, 320), (8, 330), (9, 300), (1000, 300)]
)
def test_lower_floor_applies_between_two_node_counts(count: int, floor: float) -> None:
    assert floor_for_count(ENTRY, count).gbs == floor


def test_floor_of_many_nodes_does_not_exceed_the_floor_of_fewer_nodes() -> None:
    assert floor_for_count({**ENTRY, "floor_gbs": 400}, 9).gbs == 330
    assert floor_for_count({"floor_gbs": 5, "source": "x"}, 9) == (5.0, "x", None)
    assert floor_for_count({}, 2) == NONE


def test_in_network_reduction_raises_the_floor() -> None:
    assert [floor_for_count(ENTRY, count, in_network=True).gbs for count in (2, 4, 64)] == [440, 348, 348]
    assert floor_for_count(ENTRY, 2).best == 488


# Published busbw in GB/s of healthy hardware; the source of the profile names the document or log of each.
HEALTHY = [
    ("dgx_h100", 1, "all_reduce", 478.87),
    ("dgx_h100", 2, "all_reduce", 487.9),
    ("hgx_h100", 2, "all_reduce", 471.22),
    ("hgx_h100", 2, "all_reduce", 467.54),
    ("hgx_h100", 2, "all_reduce", 444.31),
    ("hgx_h100", 10, "all_reduce", 320.54),
    ("hgx_h100", 10, "all_gather", 324.29),
    ("hgx_h100", 10, "reduce_scatter", 323.4),
    ("hgx_h100", 10, "alltoall", 50.38),
    ("dgx_h200", 2, "all_reduce", 467.54),
    ("dgx_h200", 4, "all_reduce", 369.0),
    ("dgx_b200", 1, "all_reduce", 838.0),
    ("dgx_b200", 2, "all_reduce", 683.52),
    ("dgx_b200", 2, "all_reduce", 696.06),
    ("dgx_b200", 4, "all_reduce", 381.8),
    ("dgx_a100", 2, "all_reduce", 188.53),
    ("dgx_a100", 2, "all_reduce", 187.22),
    ("dgx_a100", 2, "all_reduce", 189.6),
    ("dgx_a100", 4, "all_reduce", 191.05),
    ("hgx_a100", 1, "all_reduce", 231.58),
    ("dgx1", 2, "all_reduce", 42.0),
    ("dgx2", 2, "all_reduce", 81.53),
    ("dgx_b300", 1, "all_reduce", 834.84),
    ("dgx_b300", 1, "alltoall", 675.55),
    ("dgx_b300", 2, "all_reduce", 766.84),
    ("dgx_b300", 2, "alltoall", 180.98),
    ("dgx_a100_80gb", 2, "all_reduce", 188.53),
    ("gb200_nvl72", 1, "all_reduce", 663.34),
    ("gb300", 1, "all_reduce", 685.19),
    ("gb300", 1, "alltoall", 627.69),
]


@pytest.mark.parametrize(("hardware", "nodes", "collective", "busbw"), HEALTHY)
def test_published_values_of_healthy_hardware_pass(hardware: str, nodes: int, collective: str, busbw: float) -> None:
    floor = placed_floor(CATALOGUE[hardware], nodes, None, collective).gbs
    assert floor is not None
    assert floor <= busbw


@pytest.mark.parametrize(
    ("hardware", "sizes", "collective", "busbw"),
    [
        ("gb200_nvl72", (2,), "all_reduce", 811.0),
        ("gb200_nvl72", (4,), "all_reduce", 882.51),
        ("gb200_nvl72", (16,), "all_reduce", 891.64),
        ("gb200_nvl72", (18,), "all_reduce", 834.57),
        ("gb200_nvl72", (4,), "all_gather", 609.28),
        ("gb200_nvl72", (4,), "alltoall", 568.66),
        ("gb200_nvl72", (16, 16), "all_reduce", 683.57),
        ("gb200_nvl72", (16, 16), "alltoall", 89.7),
        ("gb200_nvl72", (16,) * 3, "all_reduce", 748.93),
        ("gb200_nvl72", (16,) * 3, "alltoall", 62.49),
        ("gb200_nvl72", (18,) * 20, "all_reduce", 405.0),
        ("gb300", (2,), "all_reduce", 841.63),
        ("gb300", (8,), "all_reduce", 923.32),
        ("gb300", (16,), "all_reduce", 930.48),
        ("gb300", (18,), "all_reduce", 895.08),
        ("gb300", (8,), "all_gather", 698.74),
        ("gb300", (16,), "alltoall", 666.92),
        ("gb300", (16, 16), "all_reduce", 738.39),
        ("gb300", (16, 16), "alltoall", 47.67),
    ],
)
def test_published_values_of_racks_pass(hardware: str, sizes: tuple[int, ...], collective: str, busbw: float) -> None:
    assert (placed_floor(CATALOGUE[hardware], sum(sizes), sizes, collective).gbs or 999) <= busbw


@pytest.mark.parametrize(
    ("hardware", "sizes", "busbw"),
    [("gb200_nvl72", (4,), 191.4), ("gb300", (8,), 376.01), ("gb300", (16, 16), 200.0), ("gb300", (18,) * 20, 405.0)],
)
def test_racks_without_nvlink_between_trays_fail(hardware: str, sizes: tuple[int, ...], busbw: float) -> None:
    """The last value is from GB200, whose trays have half the NIC rate."""
    assert (placed_floor(CATALOGUE[hardware], sum(sizes), sizes, "all_reduce").gbs or 0) > busbw


# The same GPUs with half the NIC rate of the profile: published values, and the maximum that half the NICs can carry.
HALF = [
    ("hgx_h100", 2, "all_reduce", 338.82),
    ("dgx1", 2, "all_reduce", 22.92),
    ("dgx_h100", 2, "all_reduce", 375.0),
    ("dgx_h100", 4, "all_reduce", 258.3),
    ("dgx_h100", 10, "all_reduce", 219.4),
    ("dgx_h100", 2, "alltoall", 46.9),
    ("dgx_h100", 4, "alltoall", 32.3),
    ("dgx_h100", 10, "alltoall", 27.4),
    ("dgx_h200", 2, "all_reduce", 375.0),
    ("dgx_b200", 2, "all_reduce", 375.0),
    ("dgx_b200", 4, "all_reduce", 258.3),
    ("dgx_a100", 2, "all_reduce", 174.0),
    ("dgx_a100", 4, "all_reduce", 129.2),
    ("dgx_a100", 2, "alltoall", 23.4),
]


@pytest.mark.parametrize(("hardware", "nodes", "collective", "busbw"), HALF)
def test_half_of_the_nics_fails(hardware: str, nodes: int, collective: str, busbw: float) -> None:
    floor = placed_floor(CATALOGUE[hardware], nodes, None, collective).gbs
    assert floor is not None
    assert floor > busbw


# Share of the tree ceiling that NCCL reaches, and the tested numbers of nodes or racks.
TREE = 0.93
COUNTS = (2, 3, 4, 5, 8, 16, 64)


def half_of_the_nics(profile: dict[str, Any], count: int, collective: str, best: float | None) -> float:
    """Return the maximum GB/s of nodes with half of their NICs, from the ceiling or in proportion to the best value.

    The proportion applies if published values stay far below the ceilings, as between NVLink racks.
    """
    domain = int(profile.get("nvlink_domain_nodes") or 1)
    gpus = int(profile["gpu"]["count"]) * domain
    outside = nic_rate(profile["nics"]) / 2 * domain
    if collective == "all_reduce":
        reached = min(hierarchical(outside, count, gpus), ceilings(profile, count * domain)["limit"])
    elif collective == "alltoall":
        reached = alltoall(outside, count, gpus)
    else:
        reached = outside
    return TREE * reached if best is None or best > TREE * reached else best / 2


@pytest.mark.parametrize("hardware", sorted(set(CATALOGUE) - {"sandbox_gpu"}))
def test_every_floor_fails_nodes_with_half_of_their_nics(hardware: str) -> None:
    profile = CATALOGUE[hardware]
    scope = "inter_domain" if profile.get("nvlink_domain_nodes") else "inter_node"
    if sum(nic["count"] for nic in profile["nics"]) < 2:
        pytest.skip("a node with one NIC has no half")
    for collective in ("all_reduce", *(profile["busbw"].get(scope) or {}).get("collectives", ())):
        entry = scope_entry(profile, scope, collective)
        for count in COUNTS if entry else ():
            for in_network in (False, True):
                floor = floor_for_count(entry, count, in_network=in_network)
                half = half_of_the_nics(profile, count, collective, floor.best)
                assert (floor.gbs or 0.0) > half, (collective, count)


@pytest.mark.parametrize("hardware", ["gb200_nvl72", "gb300"])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (3, 3), (18, 1), (1, 1, 1), (2, 2, 2, 2)])
def test_every_floor_fails_a_few_trays_with_half_of_their_nics(hardware: str, sizes: tuple[int, ...]) -> None:
    profile = CATALOGUE[hardware]
    gpus, rate = int(profile["gpu"]["count"]) * min(sizes), nic_rate(profile["nics"]) * min(sizes) / 2
    halves = {"all_reduce": TREE * hierarchical(rate, len(sizes), gpus), "alltoall": alltoall(rate, len(sizes), gpus)}
    for collective, half in halves.items():
        floor, source, _best = placed_floor(profile, sum(sizes), sizes, collective)
        assert floor is not None
        assert floor > half or not str(source).startswith("computed"), collective


def test_too_low_floor_is_detected() -> None:
    """Azure's floor of GB300 without NVLink between trays is 200 with four NICs per tray, so 180 passes with three."""
    assert half_of_the_nics(CATALOGUE["gb300"], 2, "all_reduce", 738.39) > 180


def test_loss_of_one_nic_in_eight_is_detected_if_the_nics_are_the_limit() -> None:
    """683.52 on two B200 nodes and 381.8 on four, with seven of eight NICs; and two GPUs of H100 that share a NIC."""
    for hardware, nodes, collective, busbw in (
        ("dgx_b200", 2, "all_reduce", 683.52 * 7 / 8),
        ("dgx_b200", 4, "all_reduce", 381.8 * 7 / 8),
        ("dgx_h200", 4, "all_reduce", 369.0 * 7 / 8),
        ("dgx_a100", 2, "all_reduce", 189.6 * 7 / 8),
        ("dgx_h100", 2, "alltoall", 93.75 / 2),
    ):
        assert (placed_floor(CATALOGUE[hardware], nodes, None, collective).gbs or 0) > busbw, hardware


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no published outputs in {CORPUS}")
@pytest.mark.parametrize(
    ("file", "verdict", "words"),
    [
        ("051-p5-2node-h100-efa-nccl-info.txt", "PASS", "floor 440"),
        ("087-oci-h100-2node-464gbs.txt", "PASS", "floor 440"),
        # 8 x 200 Gb/s, as a server of 8 x 400 with half of its NICs.
        ("112-a3mega-hash-partly-stripped.txt", "FAIL", "too slow: 338.8 GB/s at 8 GiB, floor 440"),
    ],
)
def test_published_pairs_of_h100(file: str, verdict: str, words: str) -> None:
    runs = parse_text((CORPUS / file).read_text(errors="replace"))["runs"]
    allowed: dict[str, Any] = {"allow_unchecked": True, "allow_missing_ranks": True, "allow_known_causes": True}
    found = judge(
        runs, CATALOGUE["hgx_h100"], Expected(nodes=2, hardware="hgx_h100", collective="all_reduce", **allowed)
    )
    assert (found["verdict"], words in found["reason"]) == (verdict, True), found["reason"]


def with_floors(name: str, floors: Any, scope: str = "inter_node") -> list[str]:  # noqa: ANN401 - any value
    profile = copy.deepcopy(CATALOGUE[name])
    profile["busbw"][scope]["floors"] = floors
    return [problem["problem"] for problem in profile_problems(name, profile)]


@pytest.mark.parametrize(
    ("name", "counts", "words"),
    [
        ("dgx_h100", [(2, 440), (8, 300)], "floors[1].nodes: 8 is more than twice 2: add a floor for 4 nodes"),
        ("dgx_h100", [(4, 320)], "floors[0].nodes: the first entry is 4: add a floor for 2 nodes"),
        ("dgx_h100", [(2, 440), (2, 430)], "floors[1].nodes: 2 follows 2: sort the entries by nodes"),
        ("dgx_h100", [(4, 320), (2, 440)], "floors[1].nodes: 2 follows 4: sort the entries by nodes"),
        ("dgx_h100", [(2, 600)], "floors[0]: floor 600 on 2 nodes is above the computed ceiling of 514.8 GB/s"),
        ("dgx_a100", [(2, 180), (4, 270)], "floors[1]: floor 270 on 4 nodes is above the computed ceiling of"),
        ("l40s", [(2, 30)], "floors[0]: floor 30 on 2 nodes is above the computed ceiling of 25 GB/s"),
        ("sandbox_gpu", [(2, 200)], "floors[0]: floor 200 on 2 nodes is above the computed ceiling of 100"),
    ],
)
def test_floors_with_gaps_or_above_the_ceiling_are_refused(
    name: str, counts: list[tuple[int, float]], words: str
) -> None:
    floors = [{"nodes": nodes, "floor_gbs": floor, "source": "x"} for nodes, floor in counts]
    assert any(words in problem for problem in with_floors(name, floors)), with_floors(name, floors)


@pytest.mark.parametrize(
    ("floors", "scope", "words"),
    [
        (
            {2: 440},
            "inter_node",
            "busbw.inter_node.floors: {2: 440} is not a list; expected: floors by number of nodes",
        ),
        ([], "inter_node", "busbw.inter_node.floors: [] is empty"),
        ([{"nodes": 1, "floor_gbs": 4, "source": "x"}], "inter_node", "floors[0].nodes: 1 is less than 2"),
        ([{"nodes": 2, "floor_gbs": 4}], "inter_node", "floors[0].source: is missing"),
        ([{"nodes": 2, "floor_gbs": 4, "source": "x"}], "intra_node", "busbw.intra_node.floors[0]: a single node has"),
    ],
)
def test_malformed_floors_by_count_are_refused(floors: Any, scope: str, words: str) -> None:  # noqa: ANN401 - any value
    assert any(words in problem for problem in with_floors("dgx_h100", floors, scope)), with_floors(
        "dgx_h100", floors, scope
    )


def test_site_floor_applies_to_any_number_of_nodes() -> None:
    between = {"floor_gbs": 150, "source": "measured", "collectives": {"alltoall": {"floor_gbs": 20, "source": "m"}}}
    profile = site_catalogue({"dgx_h100": {"busbw": {"inter_node": between}}})["dgx_h100"]
    assert [placed_floor(profile, count, None, "all_reduce", in_network=True).gbs for count in (2, 4, 9)] == [150] * 3
    assert placed_floor(profile, 2, None, "alltoall").gbs == 20
    kept = site_catalogue({"dgx_h100": {"busbw": {"inter_node": {"best_gbs": 470}}}})["dgx_h100"]
    assert placed_floor(kept, 2, None, "all_reduce").gbs == 440
    own = {**between, "floors": [{"nodes": 2, "floor_gbs": 400, "source": "m"}]}
    profile = site_catalogue({"dgx_h100": {"busbw": {"inter_node": own}}})["dgx_h100"]
    assert [placed_floor(profile, count, None, "all_reduce").gbs for count in (2, 3)] == [400, 150]
    assert {name: site_catalogue({})[name] for name in profile_names()} == CATALOGUE
