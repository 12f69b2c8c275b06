"""Tests that every GPU model of the catalogue and of the recordings has a known generation."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_choice import (
    DEFAULT_BRANCH,
    GENERATIONS,
    generation_of_model,
    kernel_modules,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue

CATALOGUE = site_catalogue({})


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {"sandbox_gpu"}))
def test_every_gpu_of_the_catalogue_is_supported_by_the_default_branch(name: str) -> None:
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
def test_generation_is_derived_from_the_model(model: str, key: str | None) -> None:
    assert generation_of_model(model) == key


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
