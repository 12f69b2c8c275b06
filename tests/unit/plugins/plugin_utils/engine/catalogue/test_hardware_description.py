"""Tests that profiles generated from machines are valid, pass the preflight, and match the nearest profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts_merge import join_sources
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_sockets import place_problems
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.hardware_profile_check import claim_problems
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_choice import GENERATIONS
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_check import profile_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.profile_from_machine import (
    best_profile,
    describe_machine,
    description_text,
    machine_notes,
    profile_differences,
    slurm_type,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.nvidia.driver_problems import driver_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.nodes import node_problems
from gpu_samples import gpu_xml, log_xml

CATALOGUE = site_catalogue({})
CORPUS = Path(__file__).parents[7] / "shared" / "gpu"
RECORDINGS = [
    entry["file"]
    for entry in (json.loads((CORPUS / "index.json").read_text()) if (CORPUS / "index.json").is_file() else [])
    if entry["kind"] in {"smi-xml", "smi-q"}
]
NODE = {"sockets": 2, "cores_per_socket": 56, "threads_per_core": 2, "memory_mb": 2063937}


def facts(gpus: int = 8, ports: int = 8, links: int = 18, **changes: object) -> dict[str, Any]:
    shown = [
        f"GPU {index}: X (UUID: GPU-{index})\n" + "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(links))
        for index in range(gpus)
    ]
    query = log_xml(*(gpu_xml(index, **changes) for index in range(gpus)))
    found = join_sources({"state": "ok", "query": query, "nvlink": "".join(shown)}, {}, [])
    port = {"port": "1", "active": True, "state": "ACTIVE", "rate_gbps": 400.0}
    slow = {"device": "mlx5_9", **port, "rate_gbps": 100.0}
    found["rdma_ports"] = [{"device": f"mlx5_{number}", **port} for number in range(ports)] + [slow] * bool(ports)
    interface = {"name": "eno1", "up": True, "rate_gbps": 25.0}
    return found | {"network_interfaces": [interface], "pci_nics": []}


def test_dgx_h100_is_described() -> None:
    found = facts()
    profile = describe_machine(NODE, found)
    assert profile["memory_mb"] == 2060000
    assert profile["gpu"] == {
        "model": "NVIDIA H100 80GB HBM3",
        "count": 8,
        "slurm_type": "h100",
        "device_files": "/dev/nvidia[0-7]",
        "memory_mb": 81559,
        "nvlink_gbs": 450,
    }
    assert profile["nics"] == [{"count": 8, "gbps": 400, "rdma": True}]
    assert best_profile(CATALOGUE, profile) == ("dgx_h100", [])
    assert profile_problems("x", profile) == []
    assert claim_problems("n1", profile, found, {"gpu_tolerance": 0.05}) == []


@pytest.mark.parametrize(
    ("found", "best", "keys"),
    [
        (facts(gpus=7), "dgx_h100", ["gpu.count"]),
        (facts(ports=4), "dgx_h100", ["nics"]),
        (facts(name="NVIDIA B200", memory="183359 MiB", links=18), "dgx_b200", ["gpu.nvlink_gbs"]),
        (facts(name="NVIDIA X9"), None, []),
    ],
)
def test_nearest_profile_is_found(found: dict[str, Any], best: str | None, keys: list[str]) -> None:
    name, differences = best_profile(CATALOGUE, describe_machine(NODE, found))
    assert (name, [key for key, _, _ in differences]) == (best, keys)


def test_less_memory_than_the_profile_is_a_difference() -> None:
    small = describe_machine({**NODE, "memory_mb": 1031968}, facts())
    assert profile_differences(CATALOGUE["dgx_h100"], small) == [("memory_mb", 2000000, 1030000)]


def test_description_is_yaml_and_folds_equal_machines() -> None:
    machines = [
        (f"n{number}", describe_machine(NODE, facts()), [f"slurmd -C: NodeName=n{number} CPUs=224"])
        for number in (1, 2)
    ]
    machines.append(("cpu1", describe_machine(NODE, facts(gpus=0, ports=0)), []))
    text = description_text(machines, CATALOGUE)
    assert "  # n[1-2]\n  # matches the known profile dgx_h100: set hardware: dgx_h100" in text
    assert "  # slurmd -C: CPUs=224\n" in text
    assert "  # cpu1\n  # the machine has no GPUs, but all known profiles do\n" in text
    profiles = yaml.safe_load(text)["hardware_profiles_extra"]
    assert list(profiles) == ["h100x8", "cpu112"]
    assert profiles["cpu112"]["nics"] == [{"count": 1, "gbps": 25, "rdma": False}]
    assert [profile_problems(name, profile) for name, profile in profiles.items()] == [[], []]


def refused(machine: dict[str, Any], found: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the profile generated for a machine, and the problems that the preflight of the same machine reports."""
    text = description_text([("n1", describe_machine(machine, found), machine_notes(found, ""))], CATALOGUE)
    extra = yaml.safe_load(text)["hardware_profiles_extra"]
    ((name, profile),) = extra.items()
    declared = site_catalogue(extra)[name]
    node = {"euid": 0, "free_mb": {}, "architecture": "x86_64", "os": {"id": "debian", "version": "13", "major": "13"}}
    answer = {"reached": True, "node": {**node, **machine, "cpus": 224}}
    limits = {"systems": {"debian": ["13"]}, "architectures": ["x86_64"], "clock_s": 60, "free_mb": {}}
    problems = [
        *profile_problems(name, profile, ["n1"], f"hardware_profiles_extra.{name}"),
        *driver_problems(declared, "n1", {"source": "nvidia", "imex_nodes": ["10.0.0.1", "10.0.0.2"]}),
        *node_problems("n1", answer, declared, limits),
        *place_problems("n1", declared, found),
    ]
    # Broken hardware is reported with any profile, so count only problems of the declaration.
    wrong = [each for each in claim_problems("n1", declared, found, {"gpu_tolerance": 0.05}) if "declared" in str(each)]
    return profile, [f"{each['key']}: {each['problem']}" for each in problems + wrong]


@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {CORPUS}")
@pytest.mark.parametrize("file", RECORDINGS)
def test_preflight_accepts_the_generated_profile(file: str) -> None:
    found = join_sources({"state": "ok", "query": (CORPUS / file).read_text(errors="replace")}, {}, [])
    found |= {"rdma_ports": [], "pci_nics": [], "network_interfaces": [{"name": "e", "up": True, "rate_gbps": 25.0}]}
    profile, wrong = refused(NODE, found)
    if "generation" in (profile.get("gpu") or {}) and profile["gpu"]["generation"] is None:
        assert not {gpu["architecture"] for gpu in found["gpus"]} & {one.name for one in GENERATIONS.values()}
        assert [each for each in wrong if "generation" not in each] == []
    else:
        assert wrong == []


@pytest.mark.parametrize("architecture", ["Blackwell", "Ada Lovelace", "Rubin", "N/A"])
def test_unknown_model_gets_its_generation_or_a_placeholder(architecture: str) -> None:
    found = facts(name="NVIDIA X9")
    for gpu in found["gpus"]:
        gpu["architecture"] = architecture
    profile, wrong = refused(NODE, found)
    known = {"Blackwell": "blackwell", "Ada Lovelace": "ada"}.get(architecture)
    assert profile["gpu"]["generation"] == known
    assert bool(wrong) is (known is None)
    text = description_text([("n1", describe_machine(NODE, found), [])], CATALOGUE)
    assert ("generation:  # fill in: maxwell, " in text) is (known is None)
    filled = yaml.safe_load(text.replace("generation:  #", "generation: hopper  #"))["hardware_profiles_extra"]
    assert [profile_problems(name, each) for name, each in filled.items()] == [[]]


def test_existing_profile_names_are_not_reused() -> None:
    text = description_text([("n1", describe_machine(NODE, facts()), [])], {"h100x8": {}})
    assert list(yaml.safe_load(text)["hardware_profiles_extra"]) == ["h100x8_2"]


def test_unreadable_values_are_reported() -> None:
    bare = join_sources({"state": "absent"}, {}, [{"address": "0000:3b:00.0"}])
    bare |= {"rdma_ports": [], "network_interfaces": []}
    notes = machine_notes(bare, "")
    assert [note.partition(":")[0] for note in notes] == [
        "slurmd -C",
        "gpu.model and gpu.memory_mb are guesses, because no driver is loaded",
        "nics is a guess",
    ]
    profile = describe_machine(NODE, bare)
    profile["gpu"]["generation"] = "hopper"
    assert profile_problems("x", profile) == []
    assert machine_notes(facts(), "NodeName=n1 CPUs=4\nUpTime=1-0\n") == ["slurmd -C: NodeName=n1 CPUs=4"]
    assert "a GPU is lost" in machine_notes(facts(memory="GPU is lost"), "")[1]


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA GeForce RTX 3060", "rtx3060"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
        ("NVIDIA RTX A6000", "rtxa6000"),
        ("Simulated GPU", "simulated_gpu"),
        ("", "gpu"),
    ],
)
def test_models_have_short_names(model: str, short: str) -> None:
    assert slurm_type(model) == short


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
        ("NVIDIA RTX PRO 4500 Blackwell", "rtxpro4500"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000"),
        ("Quadro 6000", "gpu6000"),
        ("NVIDIA NVS 510", "nvs510"),
        ("NVIDIA CMP 170HX", "cmp170hx"),
        ("NVIDIA GH200 480GB", "gh200"),
    ],
)
def test_short_name_is_not_a_count_for_slurm(model: str, short: str) -> None:
    assert slurm_type(model) == short


@pytest.mark.parametrize(("kind", "wrong"), [("6000", True), ("80g", True), ("3090ti", False), ("h100", False)])
def test_type_that_slurm_reads_as_a_count_is_refused(kind: str, *, wrong: bool) -> None:
    profile = describe_machine(NODE, facts())
    profile["gpu"]["slurm_type"] = kind
    problems = profile_problems("x", profile)
    assert bool(problems) == wrong
    assert all("gpu.slurm_type" in each["problem"] for each in problems)


def test_memory_missing_in_nvidia_smi_is_guessed_from_the_host() -> None:
    found = facts()
    for gpu in found["gpus"]:
        gpu["memory_total_mib"] = None
    profile = describe_machine(NODE, found)
    assert profile["gpu"]["memory_mb"] == profile["memory_mb"] == 2060000
    assert [note for note in machine_notes(found, "") if note.startswith("gpu.memory_mb is a guess")]
    assert not [note for note in machine_notes(facts(), "") if "guess" in note]
