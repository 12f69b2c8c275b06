"""Tests of parsing and judging bandwidth matrices."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.matrix_judge import (
    judge_matrices,
    pair_floor,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.matrix_parser import (
    lines_of,
    read_links,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nvbandwidth_parser import (
    read_nvbandwidth,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.p2p_parser import read_p2p
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_samples import (
    dgx1_link,
    dgx1_speed,
    nvbandwidth_json,
    nvbandwidth_text,
    p2p_text,
    topology,
    two_sockets,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED = Path(__file__).parents[7] / "shared"
GUIDE = next((SHARED / "seeds").glob("002_*.txt"), None)
TOPOLOGIES = [
    entry
    for entry in (json.loads((SHARED / "gpu/index.json").read_text()) if (SHARED / "gpu/index.json").is_file() else [])
    if entry["file"].startswith("smi-topo/")
]


def judged(data: dict[str, Any], hardware: str | None = "c4140_v100", floor: float = 0.0) -> dict[str, Any]:
    profile = site_catalogue({}).get(hardware or "")
    about = {"node": "gpu2", "hardware": hardware or "", "profile": profile, "options": {"p2p_floor_gbs": floor}}
    return judge_matrices(data, about)


def of_pcie(
    gpus: int, speed: Callable[[int, int], float], changes: dict[tuple[str, int, int], float] | None = None
) -> dict[str, Any]:
    """Return the verdict on a machine without a profile, with a floor that all of its pairs reach."""
    return judged(read_p2p(p2p_text(gpus, speed, changes)), None, floor=1.0)


@pytest.mark.skipif(GUIDE is None, reason="the guide lies beside the checkout")
def test_published_matrix_passes_and_a_third_of_it_fails() -> None:
    assert GUIDE is not None
    text = GUIDE.read_text(encoding="utf-8")
    data = read_p2p(text)
    assert (data["errors"], len(data["devices"]), len(data["matrices"])) == ([], 4, 8)
    assert data["matrices"][1]["values"][2] == [48.33, 48.35, 741.22, 48.36]
    found = judged(data)
    assert (found["verdict"], found["lowest_gbs"], found["floor"]) == ("PASS", 48.32, 40.0)
    slow = judged(read_p2p(text.replace("2 48.33 48.35 741.22 48.36", "2 48.33 48.35 741.22 16.12")))
    assert (slow["verdict"], slow["pairs"]) == ("FAIL", [[2, 3]])
    assert slow["reason"].startswith("gpu2: GPU 2 and GPU 3: 16.12 GB/s")
    assert slow["matrices"][1]["odd"] == [[2, 3]]


@pytest.mark.parametrize("hardware", ["c4140_v100", None])
@pytest.mark.parametrize("name", ["uni", "bi", "uni-", "bi-"])
@pytest.mark.parametrize("cell", [(0, 1), (3, 0), (2, 2)])
def test_third_of_the_bandwidth_in_any_matrix_names_the_pair(
    hardware: str | None, name: str, cell: tuple[int, int]
) -> None:
    usual = {"uni": 48.3, "bi": 96.6, "uni-": 10.9, "bi-": 19.6}[name] if cell[0] != cell[1] else 741.0
    found = judged(read_p2p(p2p_text(4, changes={(name, *cell): usual / 3})), hardware)
    assert (found["verdict"], found["pairs"]) == ("FAIL", [sorted(set(cell))])
    assert all(f"GPU {gpu}" in found["reason"] for gpu in cell)


@pytest.mark.parametrize(
    ("gpus", "speed"),
    [
        (8, dgx1_speed),
        (4, two_sockets(2)),
        (4, two_sockets(3)),
        (3, two_sockets(2)),
        (5, two_sockets(4)),
        (8, two_sockets(4)),
        (4, lambda one, two: 46.0 if one // 2 == two // 2 else 11.0),
        (8, lambda one, two: 9.9 if one // 2 == two // 2 else 11.4),
        (2, lambda _one, _two: 5.7),
        (16, lambda _one, _two: 137.0),
    ],
    ids=["dgx1", "2+2", "3+1", "2+1", "4+1", "4+4", "bridges", "switches", "two", "dgx2"],
)
def test_healthy_machine_has_no_findings(gpus: int, speed: Callable[[int, int], float]) -> None:
    found = of_pcie(gpus, speed)
    assert (found["verdict"], found["pairs"], found["findings"]) == ("PASS", [], [])


@pytest.mark.parametrize("text", [p2p_text(8, dgx1_speed), topology() + p2p_text(8, dgx1_speed)])
@pytest.mark.parametrize("pair", [(0, 3), (0, 1)])
def test_slow_direction_of_a_dgx1_is_named(text: str, pair: tuple[int, int]) -> None:
    changes = {("uni", *pair): dgx1_speed(*pair) / 3}
    head = text.partition("[P2P")[0]
    assert judged(read_p2p(text), "dgx1")["verdict"] == "PASS"
    found = judged(read_p2p(head + p2p_text(8, dgx1_speed, changes)), "dgx1")
    assert (found["verdict"], found["pairs"]) == ("FAIL", [list(pair)])


@pytest.mark.parametrize("gbs", [24.2, 9.1])
@pytest.mark.parametrize("known", [True, False])
def test_pair_with_lost_links_is_named(gbs: float, *, known: bool) -> None:
    changes = {("uni", 0, 3): gbs, ("uni", 3, 0): gbs}
    text = (topology() if known else "") + p2p_text(8, dgx1_speed, changes)
    found = judged(read_p2p(text), "dgx1")
    assert (found["verdict"], found["pairs"]) == ("FAIL", [[0, 3]])
    assert ("the floor: 35" in found["reason"]) == known


def test_mesh_at_half_the_link_rate_is_below_the_profile_floor() -> None:
    slow = p2p_text(8, lambda one, two: dgx1_speed(one, two) / (1 if dgx1_link(one, two) == "SYS" else 2))
    found = judged(read_p2p(topology() + slow), "dgx1")
    assert (found["verdict"], len(found["pairs"])) == ("FAIL", 16)
    assert "GPU 0 and GPU 3: 24.15 GB/s (the floor: 35" in found["reason"]


def test_cells_are_compared_with_pairs_of_the_same_link_type() -> None:
    changes = {("uni", 2, 6): 3.0, ("uni", 6, 2): 3.0}
    text = topology(8, lambda one, two: "PIX" if one // 2 == two // 2 else "SYS")
    found = judged(read_p2p(text + p2p_text(8, two_sockets(8), changes)), None, floor=1.0)
    assert (found["verdict"], found["pairs"]) == ("FAIL", [[2, 6]])
    assert "the median of all SYS pairs: 22.4" in found["reason"]


@pytest.mark.parametrize(
    ("gpus", "slow", "pairs"),
    [
        (4, [(0, 1)], [[0, 1]]),
        (3, [(0, 1)], [[0, 1]]),
        (8, [(0, 1), (2, 5)], [[0, 1], [2, 5]]),
        (8, [(5, other) for other in range(8) if other != 5], [[min(5, n), max(5, n)] for n in range(8) if n != 5]),
    ],
)
def test_pairs_slow_in_both_directions_are_named(
    gpus: int, slow: list[tuple[int, int]], pairs: list[list[int]]
) -> None:
    changes = {("uni", *cell): 7.0 for pair in slow for cell in (pair, pair[::-1])}
    found = of_pcie(gpus, lambda _one, _two: 22.0, changes)
    assert (found["verdict"], sorted(found["pairs"])) == ("FAIL", sorted(pairs))
    if len(pairs) > 2:
        assert "GPU 5 is slow with 7 other GPUs" in found["reason"]


def test_latency_and_lost_access_are_findings() -> None:
    text = p2p_text(4, changes={("gpu", 1, 2): 30.0}).replace(
        "Device=0 CAN Access Peer Device=1", "Device=0 CANNOT Access Peer Device=1"
    )
    found = judged(read_p2p(text))
    assert found["verdict"] == "PASS"
    assert any("row 1, column 2: 30 us" in finding for finding in found["findings"])
    assert "GPU 0 and GPU 1 have no direct access to each other" in found["findings"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the output contains no results of p2pBandwidthLatencyTest"),
        ("\x00\x01\xff", "the output contains no results"),
        ("bash: p2pBandwidthLatencyTest: command not found", "command not found"),
        (p2p_text().partition("Bidirectional")[0], "the output is incomplete: bidirectional"),
        (p2p_text()[:1500], "truncated after"),
        (p2p_text().replace("  48.30", "  nan", 1), "contains non-numeric cells"),
        (p2p_text().replace("  48.30", "", 1), "has 3 cells (expected 4)"),
        (p2p_text(4) + p2p_text(4), "printed twice"),
        (p2p_text(3), "3 GPU(s) took part (expected 4)"),
        (
            p2p_text().replace("Device: 3, ", "Gerät: 3, "),
            "the matrices have 4 devices (expected 3, from the device list)",
        ),
        (p2p_text() + "Cuda failure p2p.cu:77: 'an illegal memory access was encountered'", "illegal memory access"),
    ],
)
def test_incomplete_matrix_is_inconclusive(text: str, words: str) -> None:
    found = judged(read_p2p(text))
    assert (found["verdict"], found["pairs"]) == ("INCONCLUSIVE", [])
    assert words in found["reason"]


def test_unknown_hardware_has_no_floor_unless_an_option_sets_it() -> None:
    assert judged(read_p2p(p2p_text()), "no_such")["reason"] == "unknown hardware 'no_such': no floor"
    assert judged(read_p2p(p2p_text()), None)["verdict"] == "INCONCLUSIVE"
    assert judged(read_p2p(p2p_text()), None, floor=40.0)["verdict"] == "PASS"
    slow = judged(read_p2p(p2p_text()), "c4140_v100", floor=49.0)
    assert (slow["verdict"], slow["source"]) == ("FAIL", "set by an option")


@pytest.mark.parametrize(
    ("hardware", "floor"),
    [("dgx1", 5.0), ("dgx_a100", 210.0), ("dgx_h100", 315.0), ("rudra_a100_pcie", 3.15), ("no_such", None)],
)
def test_floors(hardware: str, floor: float | None) -> None:
    value, source = pair_floor(site_catalogue({}).get(hardware))
    assert value == pytest.approx(floor) if floor is not None else value is None
    assert (source is None) == (floor is None)


@pytest.mark.parametrize("make", [nvbandwidth_text, nvbandwidth_json])
def test_nvbandwidth_as_text_and_as_json(make: Callable[..., str]) -> None:
    head = "# busbar: Kernel=6.1\n" + topology(8, lambda _one, _two: "NV18")
    data = read_nvbandwidth(head + make())
    assert (data["errors"], data["version"], len(data["matrices"])) == ([], "v0.7", 4)
    assert [matrix["what"] for matrix in data["matrices"]] == ["each", "pairs", "pairs", "latency"]
    found = judged(data, "dgx_h100")
    assert found["verdict"] == "PASS"
    assert found["findings"] == ["device_to_device_memcpy_read_sm: waived, because it does not apply to these GPUs"]
    changes = {("device_to_device_memcpy_read_ce", 3, 6): 123.0, ("host_to_device_memcpy_ce", 0, 5): 13.0}
    slow = judged(read_nvbandwidth(head + make(changes=changes)), "dgx_h100")
    assert (slow["verdict"], slow["pairs"]) == ("FAIL", [[5], [3, 6]])


@pytest.mark.parametrize("make", [nvbandwidth_text, nvbandwidth_json])
def test_loss_of_one_nvlink_is_below_the_floor(make: Callable[..., str]) -> None:
    found = judged(read_nvbandwidth(make(speed=160.0)), "dgx_h100")
    assert found["verdict"] == "FAIL"
    assert "the floor: 315" in found["reason"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the output contains no results of nvbandwidth"),
        (nvbandwidth_text()[:900], "printed nothing"),
        (nvbandwidth_text().partition("\n 5 ")[0], "truncated after 5 of 8 rows"),
        (re.sub(r"\nSUM device_to_device_memcpy_read_ce.*", "", nvbandwidth_text()), "the sum after its rows"),
        (nvbandwidth_text().replace("371.00", "271.00", 1), "the sum of its cells"),
        (nvbandwidth_json()[:-40], "the JSON is incomplete"),
        ('{"nvbandwidth": {"testcases": [{"name": "x", "status": "Error", "error": "out of memory"}]}}', "x: Error"),
        ('{"nvbandwidth": {"error": "No devices found", "testcases": []}}', "No devices found"),
        ('{"other": 1}', "the JSON is not from nvbandwidth"),
        (nvbandwidth_json().replace('"371"', '"much"', 1), "contains cells that are not numbers"),
        (nvbandwidth_text(4), "4 GPU(s) took part (expected 8)"),
    ],
)
def test_incomplete_nvbandwidth_output_is_inconclusive(text: str, words: str) -> None:
    found = judged(read_nvbandwidth(text), "dgx_h100")
    assert found["verdict"] == "INCONCLUSIVE"
    assert words in found["reason"]


def test_corrupted_data_fails() -> None:
    text = nvbandwidth_text()[:900] + "\n Invalid value when checking the pattern at 0x735f80000000\n"
    found = judged(read_nvbandwidth(text), "dgx_h100")
    assert found["verdict"] == "FAIL"
    assert "copied data is wrong" in found["reason"]


@pytest.mark.parametrize("entry", TOPOLOGIES, ids=[entry["file"] for entry in TOPOLOGIES])
def test_recorded_topologies_are_read(entry: dict[str, Any]) -> None:
    text = (SHARED / "gpu" / entry["file"]).read_text(errors="replace")
    rows = entry["facts"]["rows"]
    wanted = {
        f"{one[3:]}-{two[3:]}": label
        for one in rows
        for two, label in rows[one]["links"].items()
        if one.startswith("GPU") and two.startswith("GPU") and int(one[3:]) < int(two[3:])
    }
    assert read_links(lines_of(text)) == wanted


def test_links_of_a_dgx1_are_parsed() -> None:
    links = read_links(lines_of(topology()))
    assert links == {f"{a}-{b}": dgx1_link(a, b) for a in range(8) for b in range(a + 1, 8)}


OUTPUTS = [p2p_text(4), topology() + p2p_text(8, dgx1_speed), nvbandwidth_text(4), nvbandwidth_json(4)]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(OUTPUTS), st.data())
def test_any_input_is_parsed_without_an_exception(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 400)))
    mutated = text[:begin] + data.draw(st.text(max_size=20)) + text[end:]
    for read in (read_p2p, read_nvbandwidth):
        found = judged(read(mutated), "c4140_v100")
        assert found["verdict"] in {"PASS", "FAIL", "INCONCLUSIVE"}
        json.dumps(found, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([p2p_text(4), nvbandwidth_text(4)]), st.data())
def test_output_with_a_lost_row_does_not_pass(text: str, data: st.DataObject) -> None:
    lines = text.splitlines(keepends=True)
    rows = [number for number, line in enumerate(lines) if re.match(r"\s+\d+ +[\dN]", line)]
    gone = data.draw(st.sampled_from(rows))
    cut = "".join(lines[:gone] + lines[gone + 1 :])
    read = read_p2p if "P2P" in text else read_nvbandwidth
    assert judged(read(cut), None, floor=1.0)["verdict"] == "INCONCLUSIVE"
