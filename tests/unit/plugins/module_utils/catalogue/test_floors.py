"""Floors for numbers of nodes: the rule between them, and published figures held against them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.catalogue.check import floor_advice, profile_problems
from ansible_collections.busbar.cluster.plugins.module_utils.catalogue.domains import placed_floor
from ansible_collections.busbar.cluster.plugins.module_utils.catalogue.floors import NONE, floor_for_count
from ansible_collections.busbar.cluster.plugins.module_utils.catalogue.profiles import profile_names, site_catalogue
from ansible_collections.busbar.cluster.plugins.module_utils.nccl.output import parse_text
from ansible_collections.busbar.cluster.plugins.module_utils.validation.judge import Asked, judge

CATALOGUE = site_catalogue({})
CORPUS = Path(__file__).parents[6] / "shared" / "nccl" / "corpus"
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
def test_between_two_counts_the_lower_floor_holds(count: int, floor: float) -> None:
    assert floor_for_count(ENTRY, count).gbs == floor


def test_a_floor_for_many_nodes_that_is_above_that_of_fewer_is_not_asked_of_more() -> None:
    assert floor_for_count({**ENTRY, "floor_gbs": 400}, 9).gbs == 330
    assert floor_for_count({"floor_gbs": 5, "source": "x"}, 9) == (5.0, "x", None)
    assert floor_for_count({}, 2) == NONE


def test_sums_in_the_network_ask_for_more_where_they_can() -> None:
    assert [floor_for_count(ENTRY, count, in_network=True).gbs for count in (2, 4, 64)] == [440, 348, 348]
    assert floor_for_count(ENTRY, 2).best == 488


# Published busbw in GB/s of healthy hardware; each is in a document or log that the profile's source names.
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
]


@pytest.mark.parametrize(("hardware", "nodes", "collective", "busbw"), HEALTHY)
def test_published_figures_of_healthy_hardware_pass(hardware: str, nodes: int, collective: str, busbw: float) -> None:
    floor = placed_floor(CATALOGUE[hardware], nodes, None, collective).gbs
    assert floor is not None
    assert floor <= busbw


@pytest.mark.parametrize(
    ("nodes", "sizes", "busbw"), [(18, (18,), 834.57), (32, (16, 16), 683.57), (360, (18,) * 20, 405.0)]
)
def test_published_figures_of_racks_pass(nodes: int, sizes: tuple[int, ...], busbw: float) -> None:
    assert (placed_floor(CATALOGUE["gb200_nvl72"], nodes, sizes, "all_reduce").gbs or 999) <= busbw


# The same GPUs with half the rate of the profile's NICs, published; and what half of them can carry at the most.
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
def test_half_of_the_nics_fail(hardware: str, nodes: int, collective: str, busbw: float) -> None:
    floor = placed_floor(CATALOGUE[hardware], nodes, None, collective).gbs
    assert floor is not None
    assert floor > busbw


def test_one_nic_of_eight_is_seen_where_the_wire_is_the_limit() -> None:
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
    found = judge(runs, CATALOGUE["hgx_h100"], Asked(nodes=2, hardware="hgx_h100", collective="all_reduce", **allowed))
    assert (found["verdict"], words in found["reason"]) == (verdict, True), found["reason"]


def with_floors(name: str, floors: Any, scope: str = "inter_node") -> list[str]:  # noqa: ANN401 - any value
    profile = copy.deepcopy(CATALOGUE[name])
    profile["busbw"][scope]["floors"] = floors
    return [problem["problem"] for problem in profile_problems(name, profile)]


@pytest.mark.parametrize(
    ("name", "counts", "words"),
    [
        ("dgx_h100", [(2, 440), (8, 300)], "floors[1].nodes: 2 and 8 have a gap between: add a floor for 4 nodes"),
        ("dgx_h100", [(4, 320)], "floors[0].nodes: the counts begin with 2: add a floor for 2 nodes"),
        ("dgx_h100", [(2, 440), (2, 430)], "floors[1].nodes: 2 after 2: put the counts in rising order"),
        ("dgx_h100", [(4, 320), (2, 440)], "floors[1].nodes: 2 after 4: put the counts in rising order"),
        ("dgx_h100", [(2, 600)], "floors[0]: no hardware reaches the floor 600 on 2 nodes; the ceiling is 514.8 GB/s"),
        ("dgx_a100", [(2, 180), (4, 270)], "floors[1]: no hardware reaches the floor 270 on 4 nodes; the ceiling is"),
        ("l40s", [(2, 30)], "floors[0]: no hardware reaches the floor 30 on 2 nodes; the ceiling is 25 GB/s"),
        ("sandbox_gpu", [(2, 200)], "floors[0]: no hardware reaches the floor 200 on 2 nodes; the ceiling is 100"),
    ],
)
def test_gaps_and_floors_above_the_ceiling_are_refused(name: str, counts: list[tuple[int, float]], words: str) -> None:
    floors = [{"nodes": nodes, "floor_gbs": floor, "source": "x"} for nodes, floor in counts]
    assert any(words in problem for problem in with_floors(name, floors)), with_floors(name, floors)


@pytest.mark.parametrize(
    ("floors", "scope", "words"),
    [
        ({2: 440}, "inter_node", "busbw.inter_node.floors: {2: 440} is not a list; expected: floors by the number of"),
        ([], "inter_node", "busbw.inter_node.floors: [] is empty"),
        ([{"nodes": 1, "floor_gbs": 4, "source": "x"}], "inter_node", "floors[0].nodes: 1 is less than 2"),
        ([{"nodes": 2, "floor_gbs": 4}], "inter_node", "floors[0].source: is missing"),
        ([{"nodes": 2, "floor_gbs": 4, "source": "x"}], "intra_node", "busbw.intra_node.floors[0]: one node alone has"),
    ],
)
def test_the_form_of_floors_by_count(floors: Any, scope: str, words: str) -> None:  # noqa: ANN401 - any value
    assert any(words in problem for problem in with_floors("dgx_h100", floors, scope)), with_floors(
        "dgx_h100", floors, scope
    )


def test_a_low_floor_for_a_count_is_a_warning() -> None:
    profile = copy.deepcopy(CATALOGUE["dgx_h100"])
    profile["busbw"]["inter_node"]["floors"][0]["floor_gbs"] = 200
    (said,) = floor_advice({"dgx_h100": profile})
    assert said["key"] == "hardware dgx_h100: busbw.inter_node.floors[0]"
    assert said["problem"] == "floor 200 GB/s, under half of 487.9"
    assert said["remedy"].startswith("raise it, or nodes of half the speed pass")


def test_a_floor_of_the_site_holds_for_any_number_of_nodes() -> None:
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
