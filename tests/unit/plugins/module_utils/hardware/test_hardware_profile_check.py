"""Tests of comparing the hardware profile with the host: each fault names its GPU, healthy hosts have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts_merge import join_sources
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.hardware_profile_check import claim_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from gpu_samples import gpu_xml, log_xml

if TYPE_CHECKING:
    from collections.abc import Sequence

CORPUS = Path(__file__).parents[6] / "shared" / "gpu"
CLAIM = {"model": "NVIDIA H100 80GB HBM3", "count": 2, "memory_mb": 81559, "nvlink_gbs": 0}


def links(*active: int, rate: float = 26.562, of: int = 18) -> str:
    """Return the output of `nvidia-smi nvlink -s` for GPUs with these numbers of active links."""
    lines = []
    for index, count in enumerate(active):
        lines.append(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: GPU-{index})")
        lines += [f"\t Link {number}: {f'{rate} GB/s' if number < count else '<inactive>'}" for number in range(of)]
    return "\n".join(lines)


def facts(*gpus: str, pci: tuple[str, ...] = (), nvlink: str = "", driver: str = "580.65.06") -> dict[str, Any]:
    smi = {"state": "ok", "query": log_xml(*gpus, driver=driver), "nvlink": nvlink}
    found = join_sources(smi, {}, [{"address": address} for address in pci])
    return found | {"rdma_ports": [], "network_interfaces": [], "pci_nics": []}


def pair(**changes: object) -> dict[str, Any]:
    """Return a host with one healthy GPU and one with these changes."""
    return facts(gpu_xml(0), gpu_xml(1, **changes))


def told(
    found: dict[str, Any],
    nics: Sequence[dict[str, Any]] = (),
    branch: str = "",
    **claim: Any,  # noqa: ANN401
) -> list[tuple[str, str]]:
    limits = {"gpu_tolerance": 0.05, "driver_branch": branch}
    problems = claim_problems("n1", {"gpu": CLAIM | claim, "nics": list(nics)}, found, limits)
    assert all(problem["hosts"] == ["n1"] and problem["remedy"] for problem in problems)
    return [(problem["key"], problem["problem"]) for problem in problems]


SECOND = "GPU 1 (0000:11:00.0, serial 1650000000001)"


def test_healthy_host_has_no_problem() -> None:
    assert told(pair()) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"memory": "GPU is lost"}, "is lost: the driver cannot reach it"),
        (
            {"name": "NVIDIA H200", "memory": "143771 MiB"},
            "wrong model (found NVIDIA H200, expected NVIDIA H100 80GB HBM3)",
        ),
        ({"name": "Graphics Device"}, "NVIDIA H100 80GB HBM3 declared, but the driver does not recognise the board"),
        ({"memory": "40960 MiB"}, "wrong memory size (found 40960 MiB, expected 81559 MiB)"),
        (
            {"volatile": "<sram_uncorrectable>2</sram_uncorrectable><dram_uncorrectable>3</dram_uncorrectable>"},
            "5 uncorrectable ECC errors since the driver was loaded",
        ),
        (
            {"aggregate": "<sram_threshold_exceeded>Yes</sram_threshold_exceeded>"},
            "the count of uncorrectable SRAM errors exceeds the threshold",
        ),
        ({"remapped": "<remapped_row_failure>Yes</remapped_row_failure>"}, "remapping of a memory row failed"),
        ({"remapped": "<remapped_row_pending>Yes</remapped_row_pending>"}, "a memory row is pending remapping"),
        (
            {"retired": "<double_bit_retirement><retired_count>61</retired_count></double_bit_retirement>"},
            "61 memory pages are retired (replacement threshold: 60)",
        ),
        ({"retired": "<pending_retirement>Yes</pending_retirement>"}, "a memory page is pending retirement"),
        ({"fabric": "<state>In Progress</state>"}, "has not joined the NVLink fabric (state In Progress)"),
        (
            {"fabric": "<state>Completed</state><status>Unknown Error</status>"},
            "could not join the NVLink fabric (Unknown Error)",
        ),
        (
            {
                "fabric": "<state>Completed</state><status>Success</status><health><summary>Limited Capacity</summary>"
                "<bandwidth>Degraded</bandwidth><route_unhealthy>True</route_unhealthy></health>"
            },
            "NVLink fabric is degraded: Limited Capacity, bandwidth Degraded, route unhealthy True",
        ),
        ({"action": "Reboot"}, "the driver requests the action Reboot"),
        (
            {
                "reasons": "<clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>"
                "<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>"
            },
            "clocks are limited by temperature",
        ),
    ],
)
def test_faulty_gpu_is_named(changes: dict[str, object], problem: str) -> None:
    assert told(pair(**changes)) == [(SECOND, problem)]


@pytest.mark.parametrize(
    "changes",
    [
        {"aggregate": "<dram_uncorrectable>8</dram_uncorrectable>"},
        {"memory": "81920 MiB"},
        {"name": "H100 80GB HBM3"},
        {"fabric": "N/A"},
        {"ecc": "Disabled", "volatile": "<dram_uncorrectable>N/A</dram_uncorrectable>"},
        {"gen": (5, 1), "state": "P8"},
        {"reasons": "<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>"},
        {"retired": "<double_bit_retirement><retired_count>2</retired_count></double_bit_retirement>"},
        {"serial": "0000000000000"},
        {"serial": "Insufficient Permissions"},
    ],
)
def test_normal_variation_is_not_a_problem(changes: dict[str, object]) -> None:
    assert told(pair(**changes)) == []


def test_fault_of_all_gpus_is_reported_once() -> None:
    found = facts(*(gpu_xml(number, name="NVIDIA H200", action="Reset") for number in range(4)))
    assert told(found, count=4) == [
        ("all 4 GPUs", "the driver requests the action Reset"),
        ("all 4 GPUs", "wrong model (found NVIDIA H200, expected NVIDIA H100 80GB HBM3)"),
    ]
    (first, _) = claim_problems("n1", {"gpu": CLAIM | {"count": 4}}, found, {"gpu_tolerance": 0.05})
    assert "nvidia-smi --gpu-reset -i 0,1,2,3" in first["remedy"]
    single = facts(gpu_xml(0), gpu_xml(1, action="Reset"))
    (only,) = claim_problems("n1", {"gpu": CLAIM}, single, {"gpu_tolerance": 0.05})
    assert "nvidia-smi --gpu-reset -i 1)" in only["remedy"]


def three(**changes: object) -> dict[str, Any]:
    return facts(gpu_xml(0), gpu_xml(1, **changes), gpu_xml(2))


@pytest.mark.parametrize(
    ("found", "claim", "problems"),
    [
        (three(width=("16x", "4x")), {}, [(SECOND, "uses 4 PCIe lanes (other GPUs: 16)")]),
        (
            three(gen=(5, 1)),
            {},
            [(SECOND, "PCIe link trained down to generation 1 (other GPUs: 5)")],
        ),
        (facts(*(gpu_xml(n, width=("16x", "8x")) for n in range(3))), {}, []),
        (facts(*(gpu_xml(n, gen=(4, 1), state="P8") for n in range(3))), {"pcie_gen": 4}, []),
        (three(width=("16x", "8x")), {"pcie_width": 8}, []),
        (three(gen=(3, 3)), {"pcie_gen": 5}, [(SECOND, "PCIe generation is too low (maximum 3, expected 5)")]),
        (three(width=("16x", "8x")), {"pcie_width": 16}, [(SECOND, "uses 8 PCIe lanes (expected 16)")]),
    ],
)
def test_pcie_links_are_compared(found: dict[str, Any], claim: dict[str, Any], problems: list[tuple[str, str]]) -> None:
    assert told(found, count=3, **claim) == problems


@pytest.mark.parametrize(
    ("nvlink", "problems"),
    [
        (links(18, 18), []),
        (links(18, 17), [(SECOND, "17 of 18 NVLinks are up (down: 17)")]),
        (links(18, 0), [(SECOND, "NVLink of 450 GB/s declared, but no link is up (all inactive)")]),
        (
            links(18, 18).replace("Link 17: 26.562 GB/s", "Link 17: 20 GB/s", 2).replace("20 GB/s", "26.562 GB/s", 1),
            [(SECOND, "an NVLink runs at 20 GB/s, the others at 25")],
        ),
        ("", []),
    ],
)
def test_nvlinks(nvlink: str, problems: list[tuple[str, str]]) -> None:
    found = facts(gpu_xml(0), gpu_xml(1), nvlink=nvlink)
    assert told(found, nvlink_gbs=450) == problems
    assert told(found) == []


@pytest.mark.parametrize(
    ("present", "pci", "problem"),
    [
        (7, 0, "8 declared, 7 found: 0 at 0000:10:00.0, "),
        (7, 8, "8 declared, 7 found; on the PCI bus but not answering: 0000:17:00.0"),
        (7, 7, "8 declared, 7 found: 0 at 0000:10:00.0, "),
        (9, 9, "8 declared, 9 found"),
    ],
)
def test_count(present: int, pci: int, problem: str) -> None:
    bus = tuple(f"0000:{16 + number:02x}:00.0" for number in range(pci))
    ((key, text),) = told(facts(*(gpu_xml(number) for number in range(present)), pci=bus), count=8)
    assert key == "GPUs"
    assert text.startswith(problem)


@pytest.mark.parametrize(
    ("branch", "problems"),
    [
        ("", []),
        ("580", []),
        ("570", [("driver", "wrong driver branch (found version 580.65.06, expected branch 570)")]),
    ],
)
def test_driver_branch(branch: str, problems: list[tuple[str, str]]) -> None:
    assert told(pair(), branch=branch) == problems


@pytest.mark.parametrize(
    ("state", "output", "pci", "problems"),
    [
        ("absent", "", 2, []),
        ("absent", "", 1, [("GPUs", "2 declared, 1 found")]),
        ("unusable", "", 0, []),
        (
            "failed",
            "Failed to initialize NVML: Driver/library version mismatch",
            2,
            [("nvidia-smi", "fails: Failed to initialize NVML: Driver/library version mismatch")],
        ),
    ],
)
def test_without_nvidia_smi(state: str, output: str, pci: int, problems: list[tuple[str, str]]) -> None:
    bus = [{"address": f"0000:{number:02x}:00.0"} for number in range(pci)]
    found = join_sources({"state": state, "query": output}, {}, bus)
    assert told(found | {"rdma_ports": [], "network_interfaces": [], "pci_nics": []}) == problems


def port(name: str, rate: float, *, active: bool = True) -> dict[str, Any]:
    return {"device": name, "port": "1", "active": active, "state": "ACTIVE" if active else "DOWN", "rate_gbps": rate}


@pytest.mark.parametrize(
    ("ports", "boards", "problem"),
    [
        ([port("mlx5_0", 400), port("mlx5_1", 400), port("mlx5_2", 100)], 2, None),
        (
            [port("mlx5_0", 400), port("mlx5_1", 40, active=False)],
            2,
            "too few RDMA ports are active at 400 Gb/s (found 1, expected 2); the others: mlx5_1/1 DOWN 40 Gb/s",
        ),
        (
            [port("mlx5_0", 400), port("mlx5_1", 200)],
            2,
            "too few RDMA ports are active at 400 Gb/s (found 1, expected 2); the others: mlx5_1/1 ACTIVE 200 Gb/s",
        ),
        ([], 2, None),
        ([], 1, "RDMA NICs are missing from the PCI bus (found 1, expected 2)"),
    ],
)
def test_rdma_ports(ports: list[dict[str, Any]], boards: int, problem: str | None) -> None:
    found = pair() | {"rdma_ports": ports, "pci_nics": ["x"] * boards}
    assert told(found, nics=[{"count": 2, "gbps": 400, "rdma": True}]) == ([("NICs", problem)] if problem else [])


@pytest.mark.parametrize(
    ("interfaces", "problem"),
    [
        ([], None),
        ([("eno1", True, 25)], None),
        ([("eno1", True, None)], None),
        (
            [("eno1", True, 1), ("eno2", False, None)],
            "too few interfaces are up at 25 Gb/s (found 0, expected 1); the others: eno1 1 Gb/s, eno2 down",
        ),
    ],
)
def test_interfaces(interfaces: list[tuple[str, bool, float | None]], problem: str | None) -> None:
    found = pair() | {
        "network_interfaces": [dict(zip(("name", "up", "rate_gbps"), each, strict=True)) for each in interfaces]
    }
    assert told(found, nics=[{"count": 1, "gbps": 25, "rdma": False}]) == ([("NICs", problem)] if problem else [])


def test_profile_without_gpus_is_not_compared() -> None:
    assert claim_problems("n1", {"nics": []}, pair(), {"gpu_tolerance": 0.05}) == []


RECORDINGS = [
    entry
    for entry in (json.loads((CORPUS / "index.json").read_text()) if (CORPUS / "index.json").is_file() else [])
    if entry["form"] in {"xml", "q"} and entry["facts"]["gpus"][0]["product_name"]
]
BRAKE = "clocks are limited by the power brake of the server"
SICK = {
    "query.535.129.03.out.0.valid.a10": ["a memory row is pending remapping"],
    "query.535.161.08.out.0.valid": [BRAKE],
    "query.535.183.01.out.0.valid": [BRAKE],
    "020-nvidia-qx-gb200-ecc-injected": ["5 uncorrectable ECC errors", "remapping of a memory row failed"],
    "021-nvidia-qx-gb200-fabric-degraded": ["NVLink fabric is degraded: Unhealthy, route unhealthy True"],
    "023-nvidia-qx-gb200-lost": ["5 uncorrectable ECC errors", "remapping of a memory row failed", "is lost"],
}


@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {CORPUS}")
@pytest.mark.parametrize("entry", RECORDINGS, ids=[entry["file"] for entry in RECORDINGS])
def test_recordings_report_only_faulty_parts(entry: dict[str, Any]) -> None:
    """With a profile made from the recording, only the faulty parts are reported."""
    text = (CORPUS / entry["file"]).read_text(errors="replace")
    found = join_sources({"state": "ok", "query": text}, {}, [])
    first = found["gpus"][0]
    claim = {"model": first["product_name"], "count": found["gpu_count"], "memory_mb": first["memory_total_mib"] or 1}
    problems = told(found | {"rdma_ports": [], "network_interfaces": [], "pci_nics": []}, **claim)
    wanted = next((texts for name, texts in SICK.items() if name in entry["file"]), [])
    assert len(problems) == len(wanted), problems
    assert all(problem.startswith(text) for (_, problem), text in zip(problems, wanted, strict=True))


@pytest.mark.skipif(not RECORDINGS, reason=f"no recordings in {CORPUS}")
@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("smi-xml/013-nvidia-hw-qx-b200.xml", "dgx_b200"),
        ("smi-xml/014-nvidia-hw-qx-gb200.xml", "gb200_nvl72"),
        ("smi-xml/015-nvidia-hw-qx-gb300.xml", "gb300"),
        ("smi-xml/016-nvidia-hw-qx-h100.xml", "dgx_h100"),
        ("smi-xml/007-influxdata-rtx-3060-v12.xml", "rtx_3060_desktop"),
    ],
)
def test_recordings_match_the_catalogue(name: str, profile: str) -> None:
    catalogue = site_catalogue({})
    found = join_sources({"state": "ok", "query": (CORPUS / name).read_text()}, {}, [])
    found |= {"rdma_ports": [], "network_interfaces": [], "pci_nics": ["x"] * 8}
    assert claim_problems("n1", catalogue[profile], found, {"gpu_tolerance": 0.05}) == []
