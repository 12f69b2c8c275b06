"""The kernel headers that DKMS gets: for the running kernel, or for every installed kernel."""

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
def test_the_kind_of_a_kernel(release: str, flavour: str) -> None:
    assert kernel_flavour(release) == flavour


@pytest.mark.parametrize(
    ("release", "kernels", "names"),
    [
        (DEBIAN, [f"linux-image-{DEBIAN}", "linux-image-amd64"], [f"linux-headers-{DEBIAN}", "linux-headers-amd64"]),
        # `uname -r` of the HWE kernel does not say that it is one.
        (
            UBUNTU,
            [f"linux-image-{UBUNTU}", "linux-image-generic-hwe-24.04", "linux-image-unsigned-6.8.0-1-generic"],
            [f"linux-headers-{UBUNTU}", "linux-headers-generic-hwe-24.04"],
        ),
        # A kernel that somebody installed without what upgrades it.
        (UBUNTU, [f"linux-image-{UBUNTU}"], [f"linux-headers-{UBUNTU}", "linux-headers-generic"]),
    ],
)
def test_headers_that_apt_is_asked_for(release: str, kernels: list[str], names: list[str]) -> None:
    assert header_names(release, kernels) == names


def found(release: str, *available: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - what was found
    plain = {"kernel_release": release, "kernels": [], "headers": False, "installed": {}, "index": True}
    return {**plain, "available": {name: ["1"] for name in available}, **given}


def test_a_bare_debian_gets_the_headers_of_its_kernel_and_what_follows_it() -> None:
    names = [f"linux-headers-{DEBIAN}", "linux-headers-amd64"]
    assert wanted_headers(found(DEBIAN, *names), is_el=False) == names
    # What is there is not asked for, and what nobody has is no reason to fail.
    assert wanted_headers(found(DEBIAN, names[1], headers=True), is_el=False) == names[1:]
    assert wanted_headers(found(DEBIAN, headers=True, installed={names[1]: "6.1"}), is_el=False) == names[1:]
    assert wanted_headers(found(DEBIAN, headers=True), is_el=False) == []


def test_el_gets_headers_of_the_very_kernel_and_never_another_kernel() -> None:
    assert wanted_headers(found(ROCKY), is_el=True) == [f"kernel-devel-matched-{ROCKY}"]
    installed = {"kernel-devel-matched": "5.14.0-611.el9"}
    assert wanted_headers(found(ROCKY, installed=installed), is_el=True) == [f"kernel-devel-{ROCKY}"]
    assert wanted_headers(found(ROCKY, installed=installed, headers=True), is_el=True) == []


def test_headers_that_have_left_the_repository() -> None:
    assert lacking_headers(found(DEBIAN), is_el=False) == f"linux-headers-{DEBIAN}"
    assert lacking_headers(found(DEBIAN, f"linux-headers-{DEBIAN}"), is_el=False) == ""
    # In check mode on a fresh host nobody knows what there is.
    assert lacking_headers(found(DEBIAN, index=False), is_el=False) == ""
    assert lacking_headers(found(DEBIAN, headers=True), is_el=False) == ""
