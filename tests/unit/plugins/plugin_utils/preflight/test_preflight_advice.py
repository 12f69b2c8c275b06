"""Tests of advice about nodes: old versions, and kernels that require a reboot."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.kernels import newer_kernel
from ansible_collections.busbar.cluster.roles.preflight.checks import node_advice


@pytest.mark.parametrize(
    ("running", "installed", "newer"),
    [
        ("6.8.0-60-generic", ["6.8.0-60-generic", "6.8.0-124-generic"], "6.8.0-124-generic"),
        ("6.8.0-124-generic", ["6.8.0-60-generic", "6.8.0-124-generic"], ""),
        # A kernel of another flavour does not replace the running one.
        ("6.8.0-60-generic", ["6.8.0-60-generic", "6.8.0-1044-nvidia"], ""),
        ("6.12.41+deb13-amd64", ["6.12.41+deb13-amd64", "6.12.48+deb13-amd64"], "6.12.48+deb13-amd64"),
        ("6.1.0-9-amd64", ["6.1.0-9-amd64", "6.1.0-40-amd64"], "6.1.0-40-amd64"),
        (
            "5.14.0-427.13.1.el9_4.x86_64",
            ["5.14.0-427.13.1.el9_4.x86_64", "5.14.0-570.el9_6.x86_64"],
            "5.14.0-570.el9_6.x86_64",
        ),
        # A container runs the kernel of its host.
        ("6.1.0-9-amd64", ["6.12.48+deb13-amd64"], ""),
        ("6.1.0-9-amd64", [], ""),
        ("odd", ["odd", "6.1.0-9-amd64"], ""),
    ],
)
def test_newer_installed_kernel_is_found(running: str, installed: list[str], newer: str) -> None:
    assert newer_kernel(running, installed) == newer


def test_advice_about_a_node() -> None:
    node = {
        "kernel": "6.8.0-60-generic",
        "kernels": ["6.8.0-60-generic", "6.8.0-124-generic"],
        "versions": {"driver": "580.95.05", "dcgm": "1:4.5.3-1"},
    }
    driver, kernel = node_advice("gpu1", node)
    assert (driver["hosts"], driver["key"]) == (["gpu1"], "NVIDIA driver")
    assert driver["problem"].startswith("580.95.05 has 14 vulnerabilities (CVE-2025-33219 to CVE-2026-24199)")
    assert "older than 580.159.03 (https://" in driver["problem"]
    assert driver["remedy"].startswith("update it with nvidia_driver_branch or nvidia_driver_version")
    assert kernel["problem"] == "6.8.0-60-generic is running, but 6.8.0-124-generic is installed and requires a reboot"


def test_node_without_facts_gets_no_advice() -> None:
    assert node_advice("gpu1", {}) == []
