"""Tests of the kernel headers installed for DKMS: for the running kernel, or for every installed kernel."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_packages import (
    header_names,
    kernel_flavour,
    lacking_headers,
    wanted_headers,
)

DEBIAN, UBUNTU, ROCKY = "6.1.0-28-amd64", "6.14.0-33-generic", "5.14.0-570.12.1.el9_6.x86_64"


@pytest.mark.parametrize(
    ("release", "flavour"),
    [
        (DEBIAN, "amd64"),
        ("6.1.0-28-cloud-amd64", "cloud-amd64"),
        ("6.12.57+deb13-amd64", "amd64"),
        ("6.12.57+deb13-cloud-arm64", "cloud-arm64"),
        ("6.1.0-0.deb11.5-amd64", "amd64"),
        ("6.12.9+bpo-rt-amd64", "rt-amd64"),
        (UBUNTU, "generic"),
        ("6.8.0-1014-nvidia-64k", "nvidia-64k"),
        ("6.18.44-fc-v669", "fc-v669"),
    ],
)
def test_kernel_flavour_is_derived_from_the_release(release: str, flavour: str) -> None:
    assert kernel_flavour(release) == flavour


@pytest.mark.parametrize(
    ("release", "kernels", "names"),
    [
        (DEBIAN, [f"linux-image-{DEBIAN}", "linux-image-amd64"], [f"linux-headers-{DEBIAN}", "linux-headers-amd64"]),
        # `uname -r` does not show that a kernel is an HWE kernel.
        (
            UBUNTU,
            [f"linux-image-{UBUNTU}", "linux-image-generic-hwe-24.04", "linux-image-unsigned-6.8.0-1-generic"],
            [f"linux-headers-{UBUNTU}", "linux-headers-generic-hwe-24.04"],
        ),
        # A kernel installed without its meta package.
        (UBUNTU, [f"linux-image-{UBUNTU}"], [f"linux-headers-{UBUNTU}", "linux-headers-generic"]),
    ],
)
def test_apt_header_packages_follow_the_kernels(release: str, kernels: list[str], names: list[str]) -> None:
    assert header_names(release, kernels) == names


def found(release: str, *available: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - facts of any type
    plain = {"kernel_release": release, "kernels": [], "headers": False, "installed": {}, "index": True}
    return {**plain, "available": {name: ["1"] for name in available}, **given}


def test_new_debian_host_gets_headers_and_their_meta_package() -> None:
    names = [f"linux-headers-{DEBIAN}", "linux-headers-amd64"]
    assert wanted_headers(found(DEBIAN, *names), is_el=False) == names
    # Installed headers are not requested, and unavailable meta packages do not fail.
    assert wanted_headers(found(DEBIAN, names[1], headers=True), is_el=False) == names[1:]
    assert wanted_headers(found(DEBIAN, headers=True, installed={names[1]: "6.1"}), is_el=False) == names[1:]
    assert wanted_headers(found(DEBIAN, headers=True), is_el=False) == []


def test_el_gets_headers_of_exactly_the_running_kernel() -> None:
    assert wanted_headers(found(ROCKY), is_el=True) == [f"kernel-devel-matched-{ROCKY}"]
    installed = {"kernel-devel-matched": "5.14.0-611.el9"}
    assert wanted_headers(found(ROCKY, installed=installed), is_el=True) == [f"kernel-devel-{ROCKY}"]
    assert wanted_headers(found(ROCKY, installed=installed, headers=True), is_el=True) == []


def test_headers_missing_in_the_repository_are_reported() -> None:
    assert lacking_headers(found(DEBIAN), is_el=False) == f"linux-headers-{DEBIAN}"
    assert lacking_headers(found(DEBIAN, f"linux-headers-{DEBIAN}"), is_el=False) == ""
    # In check mode on a fresh host the available packages are unknown.
    assert lacking_headers(found(DEBIAN, index=False), is_el=False) == ""
    assert lacking_headers(found(DEBIAN, headers=True), is_el=False) == ""
