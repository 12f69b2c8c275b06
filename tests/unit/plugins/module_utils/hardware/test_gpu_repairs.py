"""Tests that the preflight accepts only faults that the same run repairs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts_merge import join_sources
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.hardware_profile_check import claim_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.hardware.gpu_repairs import (
    DRIVER,
    SUBNET_MANAGER,
    manages_subnet,
    repairs_of_run,
    without_repaired_faults,
)
from gpu_samples import gpu_xml, log_xml

CLAIM = {"model": "NVIDIA H100 80GB HBM3", "count": 2, "memory_mb": 81559, "nvlink_gbs": 0}
HARDWARE = {"gpu": CLAIM, "nics": [{"count": 2, "gbps": 400, "rdma": True}]}
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
SILENT = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is running."


def port(name: str, state: str, layer: str = "InfiniBand", rate: float = 400) -> dict[str, Any]:
    active = state == "ACTIVE"
    return {"device": name, "port": "1", "active": active, "state": state, "rate_gbps": rate, "link_layer": layer}


READY = [port("mlx5_0", "ACTIVE"), port("mlx5_1", "ACTIVE")]


def host(smi: dict[str, str], ports: list[dict[str, Any]] | None = None, *, manager: bool = False) -> dict[str, Any]:
    bus = [{"address": f"0000:{number:02x}:00.0"} for number in range(2)]
    found = join_sources(smi, {}, bus)
    rest = {"rdma_ports": ports or READY, "network_interfaces": [], "pci_nics": [], "fabric_manager": manager}
    return {**found, **rest}


def failing(words: str) -> dict[str, str]:
    return {"state": "failed", "query": words}


def in_fabric(state: str) -> dict[str, str]:
    fabric = f"<state>{state}</state><status>N/A</status>"
    return {"state": "ok", "query": log_xml(*(gpu_xml(index, fabric=fabric) for index in range(2)), driver="580.95.05")}


def keys(found: dict[str, Any], *cures: str) -> list[str]:
    problems = claim_problems("n1", HARDWARE, without_repaired_faults(found, cures), {"gpu_tolerance": 0.05})
    return [problem["key"] for problem in problems]


@pytest.mark.parametrize(
    ("found", "cure", "key"),
    [
        # A driver upgrade without a reboot: the next run reports it or reboots.
        (host(failing(MISMATCH)), DRIVER, "nvidia-smi"),
        # A first run on a host with nouveau loaded.
        (host(failing(SILENT)), DRIVER, "nvidia-smi"),
        # A driver from the machine's image, without the fabric manager.
        (host(in_fabric("In Progress")), DRIVER, "all 2 GPUs"),
        (host(in_fabric("Not Started")), DRIVER, "all 2 GPUs"),
        # The cables are connected, but no subnet manager assigns addresses yet.
        (host(in_fabric("Completed"), [port("mlx5_0", "INIT"), port("mlx5_1", "INIT")]), SUBNET_MANAGER, "NICs"),
    ],
)
def test_faults_repaired_by_the_run_are_accepted(found: dict[str, Any], cure: str, key: str) -> None:
    assert keys(found) == [key], "without the role it is a fault"
    assert keys(found, cure) == []


@pytest.mark.parametrize(
    "found",
    [
        host(failing("No devices were found")),
        host({"state": "hung", "query": ""}),
        # A fabric manager is running, so the GPUs do not wait for one.
        host(in_fabric("In Progress"), manager=True),
        host(in_fabric("Completed"), [port("mlx5_0", "ACTIVE"), port("mlx5_1", "DOWN")]),
        host(in_fabric("Completed"), [port("mlx5_0", "ACTIVE"), port("mlx5_1", "INIT", rate=100)]),
        host(in_fabric("Completed"), [port("mlx5_0", "ACTIVE"), port("mlx5_1", "INIT", layer="Ethernet")]),
    ],
)
def test_real_faults_are_reported(found: dict[str, Any]) -> None:
    assert len(keys(found, DRIVER, SUBNET_MANAGER)) == 1


def test_unknown_fabric_manager_excuses_no_fault() -> None:
    found = host(in_fabric("In Progress"))
    del found["fabric_manager"]
    assert keys(found, DRIVER) == ["all 2 GPUs"]


@pytest.mark.parametrize(
    ("own", "gets_driver", "cured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"nvidia_driver_source": "none"}, True, False),
        ({"nvidia_driver_source": "distribution"}, True, True),
        ({"nvidia_driver_kernel_parts": "skipped"}, True, False),
    ],
)
def test_driver_is_repaired_only_if_the_run_installs_it(own: dict[str, str], *, gets_driver: bool, cured: bool) -> None:
    assert repairs_of_run(own, gets_driver=gets_driver, subnet_manager=False) == ({DRIVER} if cured else set())


@pytest.mark.parametrize(
    ("value", "manages"), [(True, True), ("yes", True), (False, False), ("no", False), (None, False)]
)
def test_one_subnet_manager_serves_all_hosts(value: object, *, manages: bool) -> None:
    variables = {"gpu1": {}, "gpu2": {"rdma_opensm": value}}
    assert manages_subnet(variables, ["gpu1", "gpu2"]) is manages
    assert not manages_subnet(variables, ["gpu1"])
    assert (SUBNET_MANAGER in repairs_of_run({}, gets_driver=False, subnet_manager=manages)) is manages
