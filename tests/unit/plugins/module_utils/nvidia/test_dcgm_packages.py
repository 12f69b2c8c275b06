"""Which packages of DCGM a host gets."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.dcgm import dcgm_plan, driver_of_libraries

H100, V100 = {"model": "NVIDIA H100 80GB HBM3"}, {"model": "Tesla V100-SXM2-32GB"}
SETTINGS = {
    "package": "datacenter-gpu-manager-4",
    "version": "",
    "cuda": [],
    "proprietary": False,
    "multinode": False,
    "hold": True,
    "driver": "580.95.05",
    "libraries": "",
    "loaded": "",
    "branch": "",
    "planned": False,
}
# As Debian's alternatives end: readlink -e follows all links.
DEBIAN = "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.{}\n"
CORE = "datacenter-gpu-manager-4-core"


def names(gpu: dict[str, str], **changes: Any) -> list[str]:  # noqa: ANN401 - options are of any kind
    found = dcgm_plan(gpu, SETTINGS | changes, "gpu1")
    assert found["problems"] == []
    return [item["name"].removeprefix("datacenter-gpu-manager-4-") for item in found["packages"]]


@pytest.mark.parametrize(
    ("gpu", "changes", "wanted"),
    [
        (H100, {}, ["core", "cuda13"]),
        (H100, {"driver": "570"}, ["core", "cuda12"]),
        (H100, {"driver": "470.256.02"}, ["core", "cuda11"]),
        # What the host has counts, and not what is declared; after a change of the driver that is its library.
        (H100, {"driver": "", "loaded": "535.247.01\n", "branch": "580"}, ["core", "cuda12"]),
        (H100, {"driver": "", "loaded": "570.1", "libraries": DEBIAN.format("580.95.05")}, ["core", "cuda13"]),
        (H100, {"driver": "", "libraries": DEBIAN.format("550.163.01"), "branch": "580"}, ["core", "cuda12"]),
        (H100, {"driver": "", "branch": "570"}, ["core", "cuda12"]),
        (V100, {"driver": "470.1"}, ["core", "cuda11"]),
        (V100, {}, ["core", "cuda12"]),
        (H100, {"cuda": ["12", "13"]}, ["core", "cuda12", "cuda13"]),
        (H100, {"proprietary": True}, ["core", "proprietary", "cuda13", "proprietary-cuda13"]),
        (H100, {"multinode": True}, ["core", "multinode", "cuda13", "multinode-cuda13"]),
    ],
)
def test_packages_by_driver_and_gpu(gpu: dict[str, str], changes: dict[str, Any], wanted: list[str]) -> None:
    assert names(gpu, **changes) == wanted


@pytest.mark.parametrize(
    ("version", "pinned"), [("4.4.1-1", "1:4.4.1-1"), ("4.4.1", "1:4.4.1-*"), ("1:4.4.1-1", "1:4.4.1-1")]
)
def test_a_declared_version_is_pinned_and_held(version: str, pinned: str) -> None:
    found = dcgm_plan(H100, SETTINGS | {"version": version}, "gpu1")
    assert found["packages"][0] == {"name": CORE, "version": version, "hold": True}
    assert found["pins"] == [{"packages": "datacenter-gpu-manager-4-*", "version": pinned, "priority": 1001}]
    assert dcgm_plan(H100, SETTINGS, "gpu1")["pins"] == []


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"version": "3.3.9-1"}, "dcgm_version", "3.3.9-1 is not a valid version of DCGM 4"),
        ({"cuda": ["12", "14"]}, "dcgm_cuda", "no package for CUDA 14"),
        ({"driver": ""}, "dcgm_driver_version", "no driver is installed there, and none is declared"),
        ({"driver": "newest", "planned": True}, "dcgm_driver_version", "'newest' is not a valid version"),
        ({"driver": "390.157"}, "dcgm_driver_version", "no package for driver 390.157"),
    ],
)
def test_what_is_not_there_is_refused(changes: dict[str, Any], key: str, said: str) -> None:
    (found,) = dcgm_plan(H100, SETTINGS | changes, "gpu1")["problems"]
    assert (found["hosts"], found["key"]) == (["gpu1"], key)
    assert said in found["problem"]


def test_a_driver_that_is_only_planned_is_waited_for() -> None:
    found = dcgm_plan(H100, SETTINGS | {"driver": "", "planned": True}, "gpu1")
    assert (found["problems"], found["packages"]) == ([], [])
    assert found["waits"].startswith("gpu1: DCGM waits: no driver is installed there")
    assert dcgm_plan(H100, SETTINGS | {"driver": "", "cuda": ["12"]}, "gpu1")["waits"] == ""


def test_the_library_tells_the_driver() -> None:
    assert driver_of_libraries("/usr/lib64/libnvidia-ml.so.570.133.20\n") == "570.133.20"
    assert driver_of_libraries("/usr/lib64/libnvidia-ml.so.1\n") == ""
    assert driver_of_libraries("/a/libnvidia-ml.so.535.1\n/b/libnvidia-ml.so.1050.1\n") == "1050.1"
