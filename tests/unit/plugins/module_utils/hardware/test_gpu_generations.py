"""Generations of GPUs: every model that the catalogue or a recording names is known by name and by number."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_generations import (
    DEFAULT_BRANCH,
    GENERATIONS,
    generation_of,
    generation_of_model,
    generation_of_pci,
    kernel_modules,
)

CATALOGUE = yaml.safe_load((Path(__file__).parents[5] / "group_vars/all/hardware.yml").read_text())["hardware_profiles"]


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {"sandbox_gpu"}))
def test_every_gpu_of_the_catalogue_is_known_and_driven_by_the_default_branch(name: str) -> None:
    key = generation_of_model(CATALOGUE[name]["gpu"]["model"])
    assert key is not None
    generation = GENERATIONS[key]
    assert generation.least_branch <= DEFAULT_BRANCH <= (generation.last_branch or DEFAULT_BRANCH)


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("Tesla V100-SXM2-32GB", "volta"),
        ("NVIDIA TITAN V", "volta"),
        ("Tesla P100-PCIE-16GB", "pascal"),
        ("Quadro P400", "pascal"),
        ("GeForce GTX 1070 Ti", "pascal"),
        ("Tesla M60", "maxwell"),
        ("Tesla T4", "turing"),
        ("NVIDIA GeForce RTX 2080 SUPER", "turing"),
        ("Quadro RTX 6000", "turing"),
        ("NVIDIA TITAN RTX", "turing"),
        ("NVIDIA GeForce GTX 1660 SUPER", "turing"),
        ("NVIDIA A100-PCIE-40GB", "ampere"),
        ("A100-SXM4-80GB", "ampere"),
        ("NVIDIA A10G", "ampere"),
        ("NVIDIA A2", "ampere"),
        ("NVIDIA RTX A6000", "ampere"),
        ("NVIDIA GeForce RTX 3060", "ampere"),
        ("NVIDIA RTX 6000 Ada Generation", "ada"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "ada"),
        ("NVIDIA L4", "ada"),
        ("NVIDIA L40S", "ada"),
        ("NVIDIA GeForce RTX 4080 SUPER", "ada"),
        ("NVIDIA H100 80GB HBM3", "hopper"),
        ("NVIDIA H100 NVL", "hopper"),
        ("NVIDIA H200", "hopper"),
        ("NVIDIA H20", "hopper"),
        ("NVIDIA GH200 480GB", "grace_hopper"),
        ("NVIDIA B200", "blackwell"),
        ("NVIDIA GB200", "blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "blackwell"),
        ("NVIDIA GeForce RTX 5090", "blackwell"),
        ("NVIDIA GB10", "blackwell"),
        ("NVIDIA B300 SXM6 AC", "blackwell_ultra"),
        ("NVIDIA GB300", "blackwell_ultra"),
        ("Simulated GPU", None),
        ("Tesla K80", None),
        ("NVIDIA Graphics Device", None),
        ("", None),
    ],
)
def test_a_model_is_of_a_generation(model: str, key: str | None) -> None:
    assert generation_of_model(model) == key


@pytest.mark.parametrize(
    ("device", "key"),
    [
        ("10de:2330", "hopper"),
        ("0x2330", "hopper"),
        ("233010DE", "hopper"),
        ("0x233010DE", "hopper"),
        ("2342", "grace_hopper"),
        ("234110DE", "blackwell"),
        ("294110DE", "blackwell"),
        ("290110DE", "blackwell"),
        ("2b85", "blackwell"),
        ("31C210DE", "blackwell_ultra"),
        ("3182", "blackwell_ultra"),
        ("26B910DE", "ada"),
        ("27B010DE", "ada"),
        ("20b2", "ampere"),
        ("2236", "ampere"),
        ("2487", "ampere"),
        ("1eb8", "turing"),
        ("2184", "turing"),
        ("1db5", "volta"),
        ("1c30", "pascal"),
        ("15f8", "pascal"),
        ("13f2", "maxwell"),
        ("102d", None),
        ("1af1", None),
        ("", None),
        ("[REDACTED]", None),
    ],
)
def test_a_pci_number_is_of_a_generation(device: str, key: str | None) -> None:
    assert generation_of_pci(device) == key


def test_the_number_counts_more_than_the_model() -> None:
    assert generation_of("NVIDIA Graphics Device", "10de:2901") == "blackwell"
    assert generation_of("NVIDIA H100 NVL", "10de:0000") == "hopper"


@pytest.mark.parametrize(
    ("key", "branch", "modules"),
    [
        ("volta", 580, "proprietary"),
        ("turing", 535, "proprietary"),
        ("hopper", 550, "proprietary"),
        ("hopper", 570, "open"),
        ("ampere", 580, "open"),
        ("grace_hopper", 535, "open"),
        ("blackwell", 570, "open"),
    ],
)
def test_modules_follow_generation_and_branch(key: str, branch: int, modules: str) -> None:
    assert kernel_modules(GENERATIONS[key], branch) == modules
