"""Tests that invalid hardware profiles are rejected."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import one_line
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import (
    floor_advice,
    profile_problems,
)

CATALOGUE = site_catalogue({})
WANTED = set(
    "dgx1 dgx2 c4140_v100 dgx_a100 hgx_a100 rudra_a100_pcie dgx_h100 hgx_h100 dgx_h200 dgx_b200 gb200_nvl72 gb300 l40s "  # noqa: SIM905
    "rtx_3060_desktop rtx_4080x2_desktop rtx_4090 sandbox_gpu dgx_a100_80gb dgx_b300 rtx_pro_6000 dgx_spark "
    "h100_nvl".split()
)


def test_catalogue_has_no_problems() -> None:
    assert set(CATALOGUE) >= WANTED
    assert hardware_problems(CATALOGUE) == []
    assert floor_advice(CATALOGUE) == []


def hardware_problems(catalogue: dict[str, Any]) -> list[str]:
    """Return the problems of all profiles, each with its location."""
    return [one_line(each) for name, profile in catalogue.items() for each in profile_problems(name, profile)]


def changed(name: str, path: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - any value
    catalogue = {name: copy.deepcopy(CATALOGUE[name])}
    *way, last = path.split(".")
    place = catalogue[name]
    for key in way:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return catalogue


@pytest.mark.parametrize(
    ("name", "path", "value", "words"),
    [
        ("dgx_h100", "sockets", 0, "hardware dgx_h100: sockets: 0 is less than 1"),
        ("dgx_h100", "memory_mb", "2 TB", "memory_mb: '2 TB' is not a whole number"),
        ("dgx_h100", "colour", "green", "colour: unknown key"),
        ("dgx_h100", "storage", {"source": "x"}, "storage: has neither read_floor_bytes_per_second nor write_floor_"),
        ("dgx_h100", "training", {"source": "x"}, "training: has neither efficiency_floor nor"),
        (
            "dgx_h100",
            "training",
            {"efficiency_floor": 80, "source": "x"},
            "training.efficiency_floor: 80 is more than 1",
        ),
        (
            "dgx_h100",
            "training",
            {"gpt_share_floor": 0.2, "source": "x"},
            "training.gpt_share_floor: is a share of training.peak_tflops, which is missing",
        ),
        (
            "dgx1",
            "gemm",
            {"share_floor": 0.4, "memory_gbs": 900, "memory_share_floor": 0.6, "source": "x"},
            "gemm.share_floor: is a share of training.peak_tflops or gemm.peak_tflops, which are missing",
        ),
        ("dgx_h100", "gpu.count", 8.0, "gpu.count: 8.0 is not a whole number"),
        ("dgx_h100", "gpu.nvlnk_gbs", 450, "gpu.nvlnk_gbs: unknown key (did you mean nvlink_gbs?)"),
        ("dgx_h100", "busbw.inter_node.floor_gbs", float("nan"), "busbw.inter_node.floor_gbs: nan is not a number"),
        ("dgx_h100", "validation_backend", "gloo", "validation_backend: 'gloo' is not one of nccl, mpi"),
        ("dgx_h100", "gpu.count", True, "gpu.count: True is not a whole number"),
        ("dgx_h100", "gpu.settings", {"power_limit_w": "much"}, "gpu.settings: power_limit_w: must be watts"),
        ("dgx_h100", "gpu.mig", {"profile": "1g.10gb", "count": 8}, "gpu.mig: GPU 0,1,2,3,4,5,6,7: 8 x 1g.10gb"),
        ("l40s", "gpu.mig", {"profile": "1g.10gb"}, "gpu.mig: no MIG profiles are known for NVIDIA L40S"),
        ("dgx_h100", "gpu.gres_mode", "rsmi", "gpu.gres_mode: 'rsmi' is unknown"),
        ("dgx_h100", "gpu.slurm_type", "", "gpu.slurm_type: '' is empty"),
        ("dgx_h100", "gpu.cpu_sockets", [0, 1], "has 2 entries (expected 8, from gpu.count)"),
        ("dgx_h100", "gpu.cpu_sockets", [0] * 7 + [2], "gpu.cpu_sockets: socket 2 does not exist (expected 0 to 1)"),
        ("dgx_h100", "gpu.cpu_sockets", [0] * 7 + [-1], "gpu.cpu_sockets[7]: -1 is less than 0"),
        (
            "dgx_h100",
            "gpu.device_files",
            "/dev/nvidia0",
            "gpu.device_files: has 1 files (expected one per entry of gpu.cpu_sockets)",
        ),
        ("dgx_h100", "gpu.nvswitch", "yes", "gpu.nvswitch: 'yes' is not true or false"),
        ("l40s", "gpu.nvswitch", True, "gpu.nvswitch: requires nvlink_gbs above 0"),
        ("l40s", "gpu.generation", "kepler", "gpu.generation: 'kepler' is not one of maxwell, pascal"),
        ("dgx_h100", "nics", [], "nics: [] is empty"),
        ("dgx_h100", "nics", [{"count": 1}], "nics[0].gbps: is missing"),
        ("dgx_h100", "busbw.inter_node.source", " ", "source of each value; required"),
        ("dgx_h100", "busbw.inter_node.floor_gbs", 401, "is above limit 400"),
        ("dgx_h100", "busbw.between_planets", {}, "busbw.between_planets: unknown key"),
        ("c4140_v100", "p2p.floor_gbs", 0, "p2p.floor_gbs: 0 is not above 0"),
        ("c4140_v100", "p2p.source", " ", "p2p.source: ' ' is empty"),
        ("c4140_v100", "p2p.floor_gbs", 151, "floor 151 GB/s is above the line rate of 150 GB/s"),
        ("sandbox_gpu", "p2p", {"floor_gbs": 64, "source": "x"}, "floor 64 GB/s is above the line rate of 63 GB/s"),
        # Published thresholds that no node can reach.
        (
            "dgx_h100",
            "busbw.inter_node",
            {"limit_gbs": 900, "floor_gbs": 800, "source": "x"},
            "is above the computed ceiling of",
        ),
        (
            "dgx_b200",
            "busbw.inter_node",
            {"limit_gbs": 900, "floor_gbs": 900, "source": "x"},
            "is above the computed ceiling of",
        ),
        (
            "hgx_a100",
            "busbw.intra_node",
            {"limit_gbs": 400, "floor_gbs": 350, "source": "x"},
            "is above the computed ceiling of",
        ),
        (
            "rtx_3060_desktop",
            "busbw.inter_node",
            {"limit_gbs": 1, "floor_gbs": 0.5, "source": "x"},
            "is above the computed ceiling of",
        ),
        ("dgx_h100", "busbw.intra_node.limit_gbs", 900, "above the computed ceiling"),
        (
            "dgx_h100",
            "busbw.inter_node.collectives",
            {"sum": {"floor_gbs": 1, "source": "x"}},
            "collectives.sum: unknown key",
        ),
        # 400 Gb/s for each of 8 GPUs: the bandwidth of two nodes does not scale to many nodes.
        (
            "dgx_h100",
            "busbw.inter_node.collectives.alltoall.floor_gbs",
            90,
            "collectives.alltoall: floor 90 is above the computed ceiling of",
        ),
        # Switches do not reduce a gather in the network, so 460 applies to all_reduce only.
        (
            "dgx_h100",
            "busbw.intra_node.collectives.all_gather.floor_gbs",
            480,
            "all_gather: floor 480 is above the computed ceiling",
        ),
    ],
)
def test_profile_problem_is_reported(name: str, path: str, value: Any, words: str) -> None:  # noqa: ANN401 - any value
    problems = hardware_problems(changed(name, path, value))
    assert any(words in problem for problem in problems), problems
    assert all(problem.startswith(f"hardware {name}: ") for problem in problems)


@pytest.mark.parametrize("profile", [None, [], "dgx", 3, {}])
def test_invalid_profile_is_refused(profile: object) -> None:
    assert profile_problems("dgx", profile)


def test_problem_carries_the_given_hosts_and_key() -> None:
    (problem,) = profile_problems("x", None, ["gpu1"], "hardware_profiles_extra.x")
    assert (problem["hosts"], problem["key"]) == (["gpu1"], "hardware_profiles_extra.x")
    assert "profile.schema.json" in problem["remedy"]


def test_floor_below_half_of_a_node_is_a_warning() -> None:
    assert "below half" in floor_advice(changed("dgx_b200", "busbw.intra_node.floor_gbs", 420))[0]["problem"]
    (said,) = floor_advice(changed("dgx_h100", "busbw.inter_node.collectives.alltoall.floor_gbs", 25))
    assert said["key"] == "hardware dgx_h100: busbw.inter_node.collectives.alltoall"
    assert said["problem"].startswith("floor 25 GB/s is below half of 50.38")
