"""Tests of unusual output of `nvidia-smi -q -x`, with recordings made for these tests."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi import parse_query
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.nvidia_smi_links import (
    nominal_link_gbs,
    parse_nvlink,
)
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.pci_devices import normal_address
from gpu_samples import gpu_xml, log_xml

MIG = (
    "<mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id>"
    "<fb_memory_usage><total>40448 MiB</total></fb_memory_usage></mig_device>"
)
NESTED = (
    "<gpu_power_readings><gpu_ceiling_power_limit><current_power_limit>250.00 W</current_power_limit>"
    "</gpu_ceiling_power_limit></gpu_power_readings>"
)
OLD = "<power_readings><power_limit>300.00 W</power_limit></power_readings>"
DOUBLE = (
    "<single_bit><total>7</total></single_bit><double_bit><register_file>1</register_file><total>3</total></double_bit>"
)
PARTS = (
    "<sram_uncorrectable_parity>1</sram_uncorrectable_parity><sram_uncorrectable_secded>2</sram_uncorrectable_secded>"
)


def only(**changes: object) -> dict[str, Any]:
    data = parse_query(log_xml(gpu_xml(**changes)))
    assert data["errors"] == (
        [f"GPU 0 ({data['gpus'][0]['pci_bus_id']}): GPU is lost"] if data["gpus"][0]["lost"] else []
    )
    return dict(data["gpus"][0])


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, {"memory_total_mib": 81559, "mig_devices": 0, "power_limit_w": 700.0, "lost": False, "odd_texts": []}),
        ({"mig": "Enabled", "mig_devices": MIG}, {"memory_total_mib": 81559, "mig_mode": "Enabled", "mig_devices": 1}),
        ({"power": NESTED}, {"power_limit_w": 250.0}),
        ({"power": OLD}, {"power_limit_w": 300.0}),
        ({"power": ""}, {"power_limit_w": None}),
        ({"gen": (5, 1), "width": ("16x", "8x")}, {"pcie_gen_current": 1, "pcie_width_current": 8}),
        ({"gen": ("N/A", "Unknown Error")}, {"pcie_gen_max": None, "pcie_gen_current": None}),
        ({"volatile": DOUBLE}, {"ecc_volatile_uncorrected_total": 3, "ecc_volatile_corrected_total": 7}),
        ({"volatile": PARTS}, {"ecc_volatile_uncorrected_total": 3}),
        ({"volatile": PARTS.replace(">2<", ">N/A<")}, {"ecc_volatile_uncorrected_total": 1}),
        ({"volatile": PARTS.replace(">1<", ">N/A<").replace(">2<", ">N/A<")}, {"ecc_volatile_uncorrected_total": None}),
        ({"memory": "GPU is lost"}, {"memory_total_mib": None, "lost": True, "odd_texts": ["GPU is lost"]}),
        ({"memory": "Insufficient Permissions"}, {"memory_total_mib": None, "odd_texts": ["Insufficient Permissions"]}),
        ({"serial": "N/A"}, {"serial": None}),
        ({"name": "A &amp; B &lt;C&gt;"}, {"product_name": "A & B <C>"}),
        ({"fabric": "<state>N/A</state><status>N/A</status>"}, {"fabric": None}),
        ({"remapped": "N/A", "retired": "N/A"}, {"remapped_rows": None, "retired_pages": None}),
    ],
)
def test_one_gpu(changes: dict[str, object], found: dict[str, object]) -> None:
    gpu = only(**changes)
    assert {key: gpu[key] for key in found} == found


def test_notes_after_versions_are_dropped() -> None:
    note = "[Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]"
    assert parse_query(log_xml(driver=f"610.57.04 {note}"))["driver_version"] == "610.57.04"


def test_difference_of_attached_and_listed_gpus_is_an_error() -> None:
    data = parse_query(log_xml(gpu_xml(0), gpu_xml(2), attached=3))
    assert (data["attached_gpus"], data["gpu_count"]) == (3, 2)
    assert data["errors"] == ["3 GPUs are attached, 2 are listed"]


def test_truncated_log_keeps_the_complete_gpus() -> None:
    whole = log_xml(gpu_xml(0), gpu_xml(1))
    data = parse_query(
        whole[: whole.index("<fb_memory_usage>", whole.index("GPU-00000000-0000-0000-0000-000000000001"))]
    )
    assert [gpu["memory_total_mib"] for gpu in data["gpus"]] == [81559, None]
    assert data["errors"] == ["the log ends inside <gpu>: it is truncated"]


def test_unclosed_gpu_does_not_hide_the_next() -> None:
    data = parse_query(log_xml(gpu_xml(0).replace("</gpu>", ""), gpu_xml(1)))
    assert [gpu["index"] for gpu in data["gpus"]] == [0, 1]
    assert len({gpu["pci_bus_id"] for gpu in data["gpus"]}) == 2


def test_second_log_is_ignored_and_reported() -> None:
    data = parse_query(log_xml(gpu_xml(0)) + log_xml(gpu_xml(0), gpu_xml(1)))
    assert data["gpu_count"] == 1
    assert data["errors"] == ["found 2 logs (expected 1), read only the first"]


def test_entities_are_not_expanded() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + log_xml(gpu_xml(name="&b;"))
    assert parse_query(bomb)["gpus"][0]["product_name"] == "&b;"


@pytest.mark.parametrize(
    "text",
    [
        "<nvidia_smi_log>" + "<a>" * 100_000 + "</b>" * 100_000,
        "<nvidia_smi_log><" + "a" * 300_000,
        "<nvidia_smi_log>" + "<!--" * 100_000,
        "NVSMI LOG\n    Product Name" + " " * 300_000 + "x",
        "GPU 0: " + "(UUID: " * 50_000,
        "\t" + "GPU0 " * 50_000 + "\n" + "GPU0 " * 50_000,
        "name, index\n" + "," * 300_000,
    ],
    ids=range(7),
)
def test_any_text_is_parsed_quickly(text: str) -> None:
    began = time.process_time()
    for read in (parse_query, parse_nvlink):
        read(text)
    assert time.process_time() - began < 15


def test_text_and_comments_around_the_log_are_ignored() -> None:
    text = "<!-- <gpu id='x'> -->\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n" + log_xml(gpu_xml(0))
    assert parse_query(text)["gpu_count"] == 1


@pytest.mark.parametrize(
    "line",
    [
        "Failed to initialize NVML: Driver/library version mismatch",
        "No devices were found",
        "Unable to determine the device handle for GPU0000:0A:00.0: GPU is lost.  Reboot the system",
    ],
)
def test_failures_are_reported(line: str) -> None:
    data = parse_query(line + "\n")
    assert (data["form"], data["gpus"], data["errors"]) == (None, [], [line])


@pytest.mark.parametrize(
    ("rate", "nominal"), [(26.562, 25), (25.781, 25), (25.0, 25), (53.125, 50), (50.0, 50), (20.0, 20), (12.0, 12)]
)
def test_nominal_rate_of_a_link(rate: float, nominal: float) -> None:
    assert nominal_link_gbs(rate) == nominal


def test_inactive_links_are_counted_by_number() -> None:
    text = "GPU 0: X (UUID: GPU-1)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
    gpu = parse_nvlink(text)["gpus"][0]
    assert (gpu["links_active"], gpu["links_inactive"], gpu["inactive"]) == (1, 1, [1])


@pytest.mark.parametrize(
    ("address", "normal"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("3b:00.0", "0000:3b:00.0"),
        ("0008:06:00.0", "0008:06:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_pci_addresses(address: str, normal: str) -> None:
    assert normal_address(address) == normal
