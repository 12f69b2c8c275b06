"""Tests of the selected driver, and of declarations refused before a change."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_choice import driver_branch, nvlink_racks
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.nvidia.driver_problems import (
    driver_problems,
    site_driver_problems,
)

CATALOGUE = site_catalogue({})
TRAYS = [f"10.0.0.{number}" for number in range(1, 19)]
DEBIAN = {"distribution": "Debian", "major": "13"}
UBUNTU = {"distribution": "Ubuntu", "major": "24"}
ROCKY = {"distribution": "Rocky", "major": "9"}


def settings(**given: Any) -> dict[str, Any]:  # noqa: ANN401 - any value by an admin
    return {"source": "nvidia", **given}


def told(hardware: str | dict[str, Any], system: dict[str, str] | None = None, **given: Any) -> list[str]:  # noqa: ANN401
    profile = CATALOGUE[hardware] if isinstance(hardware, str) else hardware
    problems = driver_problems(profile, "gpu1", settings(**given), system)
    assert all(item["hosts"] == ["gpu1"] and item["remedy"] for item in problems)
    return [f"{item['key']}: {item['problem']}" for item in problems]


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {"sandbox_gpu"}))
@pytest.mark.parametrize("system", [{**DEBIAN, "major": "12"}, UBUNTU, {**ROCKY}])
def test_every_profile_has_no_problem_with_defaults(name: str, system: dict[str, str]) -> None:
    given: dict[str, Any] = {"imex_nodes": TRAYS}
    given |= {"version": "580.95.05"} if system["distribution"] == "Rocky" else {}
    assert told(name, system, **given) == []


@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {"sandbox_gpu"}))
def test_debian_13_uses_the_first_branch_of_its_repository(name: str) -> None:
    problems = driver_problems(CATALOGUE[name], "gpu1", settings(imex_nodes=TRAYS), DEBIAN)
    if "V100" not in CATALOGUE[name]["gpu"]["model"]:
        assert problems == []
        return
    (problem,) = problems
    assert "branch 590 no longer supports" in problem["problem"]
    for way in ("set 580", "a mirror that has it", "nvidia_driver_source: distribution"):
        assert way in problem["remedy"]


@pytest.mark.parametrize(
    ("hardware", "given", "words"),
    [
        ("dgx_b200", {"branch": "535"}, "branch 535 is too old for NVIDIA B200 (Blackwell) (minimum 570)"),
        ("gb300", {"branch": "570", "imex_nodes": TRAYS}, "branch 570 is too old for NVIDIA GB300 (Blackwell Ultra)"),
        ("dgx1", {"branch": "590"}, "branch 590 no longer supports Tesla V100-SXM2-32GB (Volta)"),
        (
            "dgx2",
            {"kernel_modules": "open"},
            "requires the proprietary modules and does not work with the open modules",
        ),
        ("dgx_b200", {"kernel_modules": "proprietary"}, "(Blackwell) requires the open modules"),
        ("dgx_a100", {"kernel_modules": "open", "branch": "470"}, "branch 470 has no open modules (first branch: 515)"),
        (
            "dgx_h100",
            {"kernel_modules": "proprietary", "branch": "620"},
            "branch 620 has no proprietary modules (last branch: 615",
        ),
        ("l40s", {"fabric_manager": "present"}, "nvidia_driver_fabric_manager: the fabric manager is enabled, but"),
        ("dgx1", {"fabric_manager": "present"}, "the hardware has no NVSwitch"),
        ("dgx_h100", {"nvlsm": "present"}, "nvidia_driver_nvlsm: NVLSM is enabled"),
        ("dgx_h100", {"imex": "present"}, "nvidia_driver_imex: IMEX is enabled"),
        ("gb200_nvl72", {}, "nvidia_driver_imex_nodes: is empty, but IMEX needs the members"),
        ("gb200_nvl72", {"imex_nodes": ["gpu1"]}, "nvidia_driver_imex_nodes: gpu1: not an address"),
        (
            "gb200_nvl72",
            {"imex_nodes": [*TRAYS, "10.0.0.99"]},
            "has 19 members (an NVLink rack of this hardware has 18)",
        ),
        ("gb200_nvl72", {"imex_nodes": ["10.0.0.1", "10.0.0.1"]}, "contains a duplicate member"),
        ("sandbox_gpu", {}, "hardware: the GPU generation of Simulated GPU is unknown"),
        (
            "dgx_h100",
            {"branch": "580", "version": "570.133.20"},
            "nvidia_driver_version: 570.133.20 does not belong to branch 580",
        ),
        ("dgx_h100", {"version": "580.95.05-1"}, "nvidia_driver_version: '580.95.05-1' is not a valid version"),
        ("dgx_h100", {"branch": "latest"}, "nvidia_driver_branch: 'latest' is not a driver branch"),
        ("dgx_b200", {"version": "535.161.08"}, "nvidia_driver_version: branch 535 is too old"),
        (
            "dgx_h100",
            {"module_parameters": {"nouveau": {}}},
            "nvidia_driver_module_parameters[nouveau]: is not a kernel module of",
        ),
        ("dgx_h100", {"module_parameters": {"nvidia": 1}}, "is not a mapping of parameters"),
        ("dgx_h100", {"module_parameters": {"nvidia": {"a": "1 b=2"}}}, "a: the value must not contain a space"),
    ],
)
def test_invalid_declaration_is_refused_without_host_facts(hardware: str, given: dict[str, Any], words: str) -> None:
    problems = told(hardware, None, **given)
    assert len(problems) == 1
    assert words in problems[0]


@pytest.mark.parametrize(
    ("hardware", "system", "given", "words"),
    [
        (
            "dgx_a100",
            DEBIAN,
            {"build": "precompiled"},
            "nvidia_driver_build: precompiled kernel modules are not available for Debian",
        ),
        (
            "dgx_a100",
            UBUNTU,
            {"build": "precompiled"},
            "nvidia_driver_build: only Ubuntu has precompiled kernel modules",
        ),
        ("dgx_a100", ROCKY, {"build": "precompiled", "version": "580.95.05"}, "are proprietary"),
        (
            "dgx_a100",
            ROCKY,
            {"source": "distribution", "version": "580.95.05"},
            "Rocky does not ship an NVIDIA driver",
        ),
        ("dgx_a100", DEBIAN, {"source": "distribution"}, "Debian's repositories have no fabric manager"),
        ("l40s", DEBIAN, {"source": "distribution", "branch": "580"}, "Debian 13 has 550 and 535, not branch 580"),
        (
            "l40s",
            DEBIAN,
            {"source": "distribution", "branch": "535", "kernel_modules": "open"},
            "Debian ships branch 535 only with the proprietary modules",
        ),
        ("dgx_b200", DEBIAN, {"source": "distribution"}, "nvidia_driver_branch: branch 550 is too old for NVIDIA B200"),
    ],
)
def test_declaration_is_refused_for_its_system(
    hardware: str, system: dict[str, str], given: dict[str, Any], words: str
) -> None:
    problems = told(hardware, system, **given)
    assert len(problems) == 1
    assert words in problems[0]


def test_hosts_without_gpus_or_with_source_none_have_no_problem() -> None:
    assert told({"nics": []}) == []
    assert told({"gpu": None}) == []
    assert told("sandbox_gpu", source="none") == []


def test_unknown_gpu_is_accepted_if_its_generation_is_declared() -> None:
    gpu = {**CATALOGUE["sandbox_gpu"]["gpu"], "generation": "blackwell"}
    assert told({"gpu": gpu}) == []
    assert "too old" in told({"gpu": gpu}, branch="550")[0]


def test_site_is_checked_host_by_host() -> None:
    variables: dict[str, dict[str, Any]] = {
        "gpu1": {"hardware": "dgx1", "nvidia_driver_kernel_modules": "open"},
        "gpu2": {"hardware": "dgx_b200"},
        "gpu3": {"hardware": "sandbox_gpu", "nvidia_driver_source": "none"},
        "gpu4": {"hardware": "sandbox_gpu"},
        "gpu5": {"hardware": "nobody knows"},
        "gpu6": {"hardware": "dgx_h100", "nvidia_driver_branch": 570, "nvidia_driver_version": "580.95.05"},
    }
    problems = site_driver_problems(list(variables), variables, CATALOGUE)
    assert [(item["hosts"], item["key"]) for item in problems] == [
        (["gpu1"], "nvidia_driver_kernel_modules"),
        (["gpu4"], "hardware"),
        (["gpu6"], "nvidia_driver_version"),
    ]


def test_trays_of_one_rack_need_no_member_list() -> None:
    rack = {"hardware": "gb200_nvl72", "nvlink_domain": "rack1"}
    variables: dict[str, dict[str, Any]] = {
        "t1": {**rack, "ansible_host": "10.0.0.1"},
        "t2": {**rack, "ansible_host": "t2.site.org", "hosts_address": "10.0.0.2"},
        "u1": {**rack, "nvlink_domain": "rack2", "ansible_host": "u1.site.org"},
        "v1": {"hardware": "gb200_nvl72", "ansible_host": "10.0.0.9"},
    }
    problems = site_driver_problems(list(variables), variables, CATALOGUE)
    assert [(item["hosts"], item["problem"]) for item in problems] == [
        (["u1"], "u1.site.org: not an address"),
        (["v1"], "is empty, but IMEX needs the members of the NVLink rack (up to 18)"),
    ]
    assert "nvlink_domain" in problems[0]["remedy"]
    assert nvlink_racks(list(variables), variables)["rack1"] == {
        "hosts": ["t1", "t2"],
        "addresses": ["10.0.0.1", "10.0.0.2"],
    }


@pytest.mark.parametrize(
    ("given", "system", "branch"),
    [
        ({}, None, 580),
        ({"branch": 570}, None, 570),
        ({"version": "570.133.20"}, None, 570),
        ({"source": "distribution"}, None, None),
        ({"source": "distribution"}, DEBIAN, 550),
        ({"source": "distribution"}, {"distribution": "Debian", "major": "12"}, 535),
        ({"source": "distribution"}, UBUNTU, 580),
        ({"source": "distribution"}, {**UBUNTU, "major": "26"}, 595),
        ({}, {**UBUNTU, "major": "26"}, 595),
        ({"source": "distribution"}, ROCKY, None),
    ],
)
def test_branch_follows_settings_and_system(
    given: dict[str, Any], system: dict[str, str] | None, branch: int | None
) -> None:
    assert driver_branch(settings(**given), system) == branch
