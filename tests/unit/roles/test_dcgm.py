"""Tests of the DCGM packages of a host, selected by its driver and GPUs, and of refused options."""

from __future__ import annotations

from typing import Any

import pytest
from role_files import named, value

H100, V100 = ({"gpu": {"generation": generation}} for generation in ("hopper", "volta"))
# Output of readlink -f, which follows all links of Debian's alternatives.
DEBIAN = "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.{}\n/usr/lib64/libnvidia-ml.so.1\n"
PLAIN = ("nvidia_driver_branch", "ansible_check_mode")


def found(name: str, hardware: dict[str, Any] = H100, host: str = "", **own: object) -> Any:  # noqa: ANN401 - any
    """Return a variable of the role on a host where the command for the driver printed `host`."""
    given = {"driver_version": "" if host else "580.95.05", "proprietary": False, "hardware": hardware, **own}
    options = named("dcgm", given, PLAIN)
    return value("dcgm", f"__dcgm_{name}", __dcgm_found={"stdout": host}, **options)


@pytest.mark.parametrize(
    ("hardware", "host", "own", "wanted"),
    [
        (H100, "", {}, ["core", "cuda13"]),
        (H100, "", {"driver_version": 570}, ["core", "cuda12"]),
        (H100, "", {"driver_version": "470.256.02"}, ["core", "cuda11"]),
        # The library on the host takes precedence over the declared driver; after a driver change it is that of the new
        # driver.
        (H100, "535.247.01\n", {"nvidia_driver_branch": "580"}, ["core", "cuda12"]),
        (H100, DEBIAN.format("580.95.05") + "570.1\n", {}, ["core", "cuda13"]),
        (H100, DEBIAN.format("550.163.01"), {"nvidia_driver_branch": "580"}, ["core", "cuda12"]),
        (H100, DEBIAN.format("535.1") + "/b/libnvidia-ml.so.1050.1\n", {}, ["core", "cuda13"]),
        (H100, "/usr/lib64/libnvidia-ml.so.1\n", {"nvidia_driver_branch": "570"}, ["core", "cuda12"]),
        (V100, "", {"driver_version": "470.1"}, ["core", "cuda11"]),
        (V100, "", {}, ["core", "cuda12"]),
        (H100, "", {"cuda": ["12", "13"]}, ["core", "cuda12", "cuda13"]),
        (H100, "", {"proprietary": True}, ["core", "proprietary", "cuda13", "proprietary-cuda13"]),
        (H100, "", {"multinode": True}, ["core", "multinode", "cuda13", "multinode-cuda13"]),
    ],
)
def test_packages_by_driver_and_gpu(
    hardware: dict[str, Any], host: str, own: dict[str, Any], wanted: list[str]
) -> None:
    names = found("names", hardware, host, **own)
    assert [name.removeprefix("datacenter-gpu-manager-4-") for name in names] == wanted
    assert found("problems", hardware, host, **own) == []


@pytest.mark.parametrize(
    ("version", "pinned"),
    [("4.4.1-1", "1:4.4.1-1"), ("4.4.1", "1:4.4.1-*"), ("1:4.4.1-1", "1:4.4.1-1"), (4.4, "1:4.4-*")],
)
def test_declared_version_is_pinned(version: str | float, pinned: str) -> None:
    pin = {"packages": "datacenter-gpu-manager-4-*", "version": pinned, "priority": 1001}
    assert found("pins", version=version) == [pin]


@pytest.mark.parametrize(
    ("own", "key", "said"),
    [
        ({"version": "3.3.9-1"}, "dcgm_version", "3.3.9-1 is not a valid version of DCGM 4"),
        ({"cuda": ["12", "14"]}, "dcgm_cuda", "no package for CUDA 14"),
        ({"driver_version": ""}, "dcgm_driver_version", "no driver is installed or declared"),
        (
            {"driver_version": "newest", "ansible_check_mode": True},
            "dcgm_driver_version",
            "'newest' is not a valid version",
        ),
        ({"driver_version": "390.157"}, "dcgm_driver_version", "no package for driver 390.157"),
    ],
)
def test_refused(own: dict[str, Any], key: str, said: str) -> None:
    (problem,) = found("problems", **own)
    assert (problem["hosts"], problem["key"]) == (["gpu7"], key)
    assert said in problem["problem"]
    assert problem["remedy"]


def test_check_mode_skips_dcgm_without_an_installed_driver() -> None:
    given: dict[str, Any] = {"driver_version": "", "ansible_check_mode": True}
    assert found("waits", **given) is True
    assert found("problems", **given) == []
    assert found("waits", cuda=["12"], **given) is False
    assert found("waits", driver_version="") is False
