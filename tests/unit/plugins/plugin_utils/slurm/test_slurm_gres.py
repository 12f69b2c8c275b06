"""Tests that GPUs in slurm.conf and gres.conf are consistent for each mode and hardware profile."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.gres_conf import (
    MODES,
    gres_problems,
    smi_places,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm import conf_lines as slurm_conf
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.cluster_problems import gpu_problems

CATALOGUE = site_catalogue({})
SEVEN = [{"profile": "1g.10gb", "count": 7}]


def node(hardware: str, **variables: object) -> slurm_conf.Node:
    return slurm_conf.inventory_node("gpu1", {"hardware": hardware, **variables})


@pytest.mark.parametrize("name", sorted(CATALOGUE))
@pytest.mark.parametrize("mode", MODES)
def test_each_profile_is_consistent_in_each_mode(name: str, mode: str) -> None:
    gpu, one = CATALOGUE[name]["gpu"], node(name, slurm_gres_mode=mode)
    faults = gres_problems([], gpu, None, mode)
    lines = slurm_conf.gres_lines([one], CATALOGUE)
    assert slurm_conf.node_attributes(one, CATALOGUE)["Gres"] == f"gpu:{gpu['slurm_type']}:{gpu['count']}"
    if mode == "files":
        assert faults == []
        if "cpu_sockets" not in gpu:
            assert lines == [f"NodeName=gpu1 Name=gpu Type={gpu['slurm_type']} File={gpu['device_files']}"]
        assert slurm_conf.gpu_plugins([one], CATALOGUE) == []
    else:
        assert lines == [f"NodeName=gpu1 AutoDetect={mode}"]
        assert slurm_conf.gpu_plugins([one], CATALOGUE) == [f"gpu_{mode}"]
        # Slurm ignores a GPU unless the declared type is part of the detected name.
        assert bool(faults) == (gpu["slurm_type"] not in gpu["model"].lower().replace(" ", "_"))


# The sockets of DGX H100 with Slurm's core numbers.
CORES = [" Cores=0-55"] * 4 + [" Cores=56-111"] * 4
WHOLE = [
    f"NodeName=gpu1 Name=gpu Type=h100 File=/dev/nvidia[{files}]{cores}"
    for files, cores in (("0-3", CORES[0]), ("4-7", CORES[4]))
]


def _files(gpu: int, profile: str, number: int) -> str:
    instance = f"/dev/busbar/gpu{gpu}-{profile}-{number}"
    return f"/dev/busbar/gpu{gpu},{instance}-gi,{instance}-ci"


@pytest.mark.parametrize(
    ("variables", "gres", "lines", "plugins"),
    [
        (
            {"mig_layout": SEVEN},
            "gpu:1g.10gb:56",
            [
                f"NodeName=gpu1 Name=gpu Type=1g.10gb MultipleFiles={_files(gpu, '1g.10gb', each)}{CORES[gpu]}"
                for gpu in range(8)
                for each in range(7)
            ],
            [],
        ),
        ({"mig_layout": []}, "gpu:h100:8", WHOLE, []),
        (
            {"mig_layout": SEVEN, "slurm_gres_mode": "nvml"},
            "gpu:1g.10gb:56",
            ["NodeName=gpu1 AutoDetect=nvml"],
            ["gpu_nvml"],
        ),
        # The order follows nvidia-smi, not the layout.
        (
            {
                "mig_layout": [
                    {"profile": "1g.10gb+me", "gpus": [1]},
                    {"profile": "3g.40gb", "gpus": [1], "slurm_type": "3g.39gb"},
                ]
            },
            "gpu:1g.10gb:1,gpu:3g.39gb:1,gpu:h100:7",
            [f"NodeName=gpu1 Name=gpu Type=h100 File=/dev/busbar/gpu0{CORES[0]}"]
            + [f"NodeName=gpu1 Name=gpu Type=3g.39gb MultipleFiles={_files(1, '3g.40gb', 0)}{CORES[1]}"]
            + [f"NodeName=gpu1 Name=gpu Type=1g.10gb MultipleFiles={_files(1, '1g.10gb_me', 0)}{CORES[1]}"]
            + [f"NodeName=gpu1 Name=gpu Type=h100 File=/dev/busbar/gpu{index}{CORES[index]}" for index in range(2, 8)],
            [],
        ),
    ],
)
def test_mig_layout_gives_its_gres(variables: dict[str, Any], gres: str, lines: list[str], plugins: list[str]) -> None:
    one = node("dgx_h100", **variables)
    assert gpu_problems([one], CATALOGUE) == []
    assert slurm_conf.node_attributes(one, CATALOGUE)["Gres"] == gres
    assert slurm_conf.gres_lines([one], CATALOGUE) == lines
    assert slurm_conf.gpu_plugins([one], CATALOGUE) == plugins
    counted = sum(int(part.rpartition(":")[2]) for part in gres.split(","))
    if lines[0].endswith("nvml"):
        return
    assert counted == sum(4 if "nvidia[" in line else 1 for line in lines)


def test_layout_of_the_hardware_applies_if_the_host_has_none() -> None:
    catalogue = {"dgx": {**CATALOGUE["dgx_h100"], "gpu": {**CATALOGUE["dgx_h100"]["gpu"], "mig": SEVEN}}}
    assert slurm_conf.gpu_types([node("dgx")], catalogue) == ["1g.10gb"]
    assert slurm_conf.gpu_types([node("dgx", mig_layout=[])], catalogue) == ["h100"]


@pytest.mark.parametrize(
    ("hardware", "variables", "key", "words"),
    [
        ("dgx_h100", {"slurm_gres_mode": "rsmi"}, "slurm_gres_mode", "'rsmi' is unknown"),
        ("dgx_h100", {"slurm_gres_mode": "nvidia", "mig_layout": SEVEN}, "slurm_gres_mode", "detects no MIG instances"),
        ("dgx_h100", {"mig_layout": [{"profile": "1g.10gb", "count": 8}]}, "mig_layout", "supports at most 7"),
        ("l40s", {"mig_layout": SEVEN}, "mig_layout", "no MIG profiles are known for NVIDIA L40S"),
        (
            "rtx_3060_desktop",
            {"slurm_gres_mode": "nvml"},
            "slurm_gres_mode",
            "slurm_type rtx3060 is not part of the name nvidia_geforce_rtx_3060",
        ),
        (
            "dgx_h100",
            {"mig_layout": [{"profile": "7g.80gb", "gpus": [0], "device_files": []}]},
            "mig_layout",
            "entry 1: device_files: unknown key",
        ),
    ],
)
def test_contradictions_are_reported(hardware: str, variables: dict[str, Any], key: str, words: str) -> None:
    (problem,) = gpu_problems([node(hardware, **variables)], CATALOGUE)
    assert (problem["hosts"], problem["key"]) == (["gpu1"], key)
    assert words in problem["problem"]
    assert problem["remedy"]


@pytest.mark.parametrize(
    ("hardware", "variables", "lines"),
    [
        ("gb200_nvl72", {}, ["File=/dev/nvidia[0-1] Cores=0-71", "File=/dev/nvidia[2-3] Cores=72-143"]),
        ("dgx2", {}, ["File=/dev/nvidia[0-7] Cores=0-23", "File=/dev/nvidia[8-15] Cores=24-47"]),
        # Node parameters set by the site take precedence.
        (
            "gb200_nvl72",
            {"slurm_node_params": {"coresPerSocket": 36}},
            ["File=/dev/nvidia[0-1] Cores=0-35", "File=/dev/nvidia[2-3] Cores=36-71"],
        ),
        ("l40s", {}, ["File=/dev/nvidia[0-3]"]),
        # Slurm numbers GPUs in the order of the lines.
        (
            "far",
            {},
            ["File=/dev/nvidia0 Cores=0-31", "File=/dev/nvidia[1-2] Cores=32-63", "File=/dev/nvidia3 Cores=0-31"],
        ),
        ("small", {}, ["File=/dev/nvidia[0-1] Cores=0", "File=/dev/nvidia[2-3] Cores=1"]),
    ],
)
def test_cores_are_whole_sockets_and_no_threads(hardware: str, variables: dict[str, Any], lines: list[str]) -> None:
    """Slurm 24.11 reads Cores=0-3 and Cores=4-7 with Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 as the 8 cores."""
    l40s = CATALOGUE["l40s"]
    far = {**l40s, "gpu": {**l40s["gpu"], "cpu_sockets": [0, 1, 1, 0]}}
    small = {**l40s, "cores_per_socket": 1, "gpu": {**l40s["gpu"], "cpu_sockets": [0, 0, 1, 1]}}
    found = slurm_conf.gres_lines([node(hardware, **variables)], {**CATALOGUE, "far": far, "small": small})
    assert [line.partition(" File=")[2] for line in found] == [line.partition("File=")[2] for line in lines]


@pytest.mark.parametrize(
    ("layout", "places"),
    [
        (None, []),
        ([], []),
        ([{"profile": "1g.10gb", "count": 7}], list(range(56))),
        # With two partitioned GPUs, Slurm numbers all instances of one type before those of the other.
        (
            [{"profile": "1g.10gb", "count": 2, "gpus": [0, 1]}, {"profile": "3g.40gb", "gpus": [0, 1]}],
            [1, 2, 4, 5, 0, 3, 6, 7, 8, 9, 10, 11],
        ),
        ([{"profile": "7g.80gb", "gpus": [2]}], [2, 0, 1, 3, 4, 5, 6, 7]),
    ],
)
def test_slurm_gpu_numbers_map_to_nvidia_smi_positions(layout: object, places: list[int]) -> None:
    assert smi_places(CATALOGUE["dgx_h100"]["gpu"], layout) == places
    assert smi_places(None, layout) == []
