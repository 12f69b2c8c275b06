"""Tests of versions without security fixes by distribution, and of their documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_fixes import (
    compare_dpkg,
    compare_rpm,
    unfixed_packages,
)
from ansible_collections.busbar.cluster.plugins.module_utils.common.software_versions import PACKAGES
from ansible_collections.busbar.cluster.roles.preflight.checks import node_advice, package_fixes

TOP = Path(__file__).resolve().parents[5]
DEBIAN_12 = {"id": "debian", "version": "12", "name": "Debian 12"}
DEBIAN_13 = {"id": "debian", "version": "13", "name": "Debian 13"}
UBUNTU = {"id": "ubuntu", "version": "24.04", "name": "Ubuntu 24.04"}
UBUNTU_22 = {"id": "ubuntu", "version": "22.04", "name": "Ubuntu 22.04"}
UBUNTU_26 = {"id": "ubuntu", "version": "26.04", "name": "Ubuntu 26.04"}
ROCKY = {"id": "rocky", "version": "9.6", "name": "Rocky Linux 9.6"}


@pytest.mark.parametrize(
    ("system", "key", "version", "said"),
    [
        (DEBIAN_12, "slurm", "22.05.8-4+deb12u3", "published no fix"),
        (DEBIAN_13, "slurm", "24.11.5-4", "fixed in 24.11.5-4+deb13u1"),
        (DEBIAN_13, "slurm", "24.11.5-4+deb13u1", ""),
        (DEBIAN_13, "slurm", "24.11.5-4+deb13u2", ""),
        # Packages from another source on Debian 13: a higher version is not necessarily fixed.
        (DEBIAN_13, "slurm", "25.11.3-1", "older than 25.11.8"),
        (DEBIAN_13, "slurm", "25.05.8-1", "older than 25.05.9"),
        (DEBIAN_13, "slurm", "26.05.5-1", ""),
        (DEBIAN_13, "slurm", "25.11.8-1", ""),
        (UBUNTU_22, "slurm", "21.08.5-2ubuntu1+esm2", "published no fix by 2026-09-03"),
        (UBUNTU, "slurm", "23.11.4-1.2ubuntu5", "published no fix by 2026-09-03"),
        (UBUNTU_26, "slurm", "25.11.2-1ubuntu2", "published no fix by 2026-09-03"),
        (UBUNTU_26, "slurm", "26.05.5-1ubuntu2", ""),
        (ROCKY, "slurm", "22.05.9-1.el9", "may have"),
        (ROCKY, "slurm", "25.11.8-300.ohpc.4.1", ""),
        (ROCKY, "slurm", "25.11.10-1.el9", ""),
        (ROCKY, "slurm", "26.11.0-1.el9", ""),
        (DEBIAN_12, "munge", "0.5.15-2", "fixed in 0.5.15-2+deb12u1"),
        (DEBIAN_12, "munge", "0.5.15-2+deb12u1", ""),
        (DEBIAN_13, "munge", "0.5.16-1.1~deb13u1", ""),
        (DEBIAN_13, "munge", "0.5.16-1", "fixed in 0.5.16-1.1~deb13u1"),
        (DEBIAN_13, "munge", "0.5.18-1", ""),
        (UBUNTU, "munge", "0.5.15-4ubuntu0.1", ""),
        (UBUNTU, "munge", "0.5.15-4build1", "fixed in 0.5.15-4ubuntu0.1"),
        (UBUNTU_22, "munge", "0.5.14-6", "fixed in 0.5.14-6ubuntu0.1"),
        (UBUNTU_22, "munge", "0.5.14-6ubuntu0.1", ""),
        (UBUNTU_26, "munge", "0.5.16-1.1", ""),
        (ROCKY, "munge", "0.5.13-13.el9", "may have"),
    ],
)
def test_revisions_without_fixes_are_reported(system: dict[str, str], key: str, version: str, said: str) -> None:
    found = [*unfixed_packages(package_fixes(), system, {key: version})]
    assert bool(found) == bool(said)
    for each in found:
        assert said in each.problem
        assert version in each.problem
        assert "CVE-2026-" in each.problem
        assert "docs/upgrade.md" in each.remedy
        # For a fix that is not in the table, the remedy refers to the changelog on the host.
        assert ("changelog" in each.remedy) == ("may have" in each.problem) == (not each.is_known)


@pytest.mark.parametrize(
    ("key", "version", "needed"),
    [
        ("driver", "580.159.03", ""),
        ("driver", "580.95.05", "580.159.03"),
        ("driver", "535.309.01", ""),
        ("driver", "600.1.1", ""),
        # The bulletin has no fix for these branches and names the fixed branches.
        ("driver", "550.163.01", "535.309.01, 580.159.03, 595.71.05"),
        ("driver", "570.211.01", "535.309.01, 580.159.03, 595.71.05"),
        ("driver", "590.48.01", "535.309.01, 580.159.03, 595.71.05"),
        ("container_toolkit", "1.19.1-1", ""),
        ("container_toolkit", "1.17.8-1", "1.19.1"),
        ("cuda", "13.1", ""),
        ("cuda", "12.9", "13.1"),
        ("dcgm", "1:4.5.3-1", ""),
        ("dcgm", "1:4.4.2-1", "4.5.3"),
        ("dcgm", "1:3.3.9", "4.5.3"),
        ("dcgm_exporter", "4.10.0-1", ""),
        ("dcgm_exporter", "4.8.1-1", "4.8.2"),
        ("dcgm", "", ""),
        ("driver", "unknown", ""),
        # No known vulnerability.
        ("enroot", "3.4.0-1", ""),
        ("pyxis", "0.15.0", ""),
    ],
)
def test_nvidia_software_needs_the_release_of_its_bulletin(key: str, version: str, needed: str) -> None:
    for system in (DEBIAN_13, UBUNTU, ROCKY):
        found = [*unfixed_packages(package_fixes(), system, {key: version})]
        assert bool(found) == bool(needed)
        for each in found:
            assert each.is_known
            assert f"older than {needed} (https://github.com/NVIDIA/product-security/" in each.problem
            assert version in each.problem
            assert "_version" in each.remedy


def test_node_reports_all_products_of_the_table() -> None:
    keys = [product["key"] for product in package_fixes()["products"]]
    assert set(keys) == {*PACKAGES, "driver", "cuda"}
    assert len(keys) == len(set(keys))


def test_preflight_and_doctor_warn() -> None:
    """Both show the result of `node_advice`."""
    node = {"os": DEBIAN_12, "versions": {"slurm": "22.05.8-4+deb12u3", "munge": "0.5.15-2"}}
    found = node_advice("ctl", node)
    assert [(each["hosts"], each["key"]) for each in found] == [(["ctl"], "Slurm"), (["ctl"], "munge")]
    assert node_advice("ctl", {"os": DEBIAN_13, "versions": {"slurm": "24.11.5-4+deb13u1"}}) == []


def test_table_has_sources_and_dates_and_matches_support_md() -> None:
    table = package_fixes()
    page = (TOP / "docs/support.md").read_text()
    page = page[page.index("## Known vulnerabilities") :]
    assert f"As of {table['as_of']}" in page
    names = {"debian": "Debian", "ubuntu": "Ubuntu"}
    for product in table["products"]:
        if product["upstream"]:
            assert f"{product['name']} {', '.join(product['upstream'])}" in page
        assert bool(product["upstream"]) == bool(product["vulnerabilities"])
        assert ("option" in product) != ("distributions" in product)
        for each in [product, *product.get("distributions", [])]:
            assert re.search(r", \d{4}-\d{2}-\d{2}$", each["source"])
            assert each["source"][-10:] <= str(table["as_of"])
        for each in product.get("distributions", []):
            row = f"| {product['name']} on {names[each['os']]} {each['version']} |"
            (line,) = (line for line in page.splitlines() if line.startswith(row))
            assert (each["fixed"] or "no package is fixed") in line
            missing = each.get(
                "not_named", [] if each["fixed"] else [hole["id"] for hole in product["vulnerabilities"]]
            )
            assert re.findall(r"CVE-\d+-\d+", line) == missing
    rows = len(re.findall(r"^\| (?:Slurm|munge) on ", page, re.MULTILINE))
    assert rows == sum(len(product.get("distributions", [])) for product in table["products"])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # Results of `dpkg --compare-versions`.
        ("24.11.5-4", "24.11.5-4+deb13u1", -1),
        ("24.11.5-4ubuntu1", "24.11.5-4+deb13u1", -1),
        ("0.5.16-1.1~deb13u1", "0.5.16-1.1", -1),
        ("0.5.9-1", "0.5.15-1", -1),
        ("1:1.0-1", "2.0-1", 1),
        ("1.0~rc1-1", "1.0-1", -1),
        ("1.0", "1.0-0", 0),
        ("25.05.9-1", "25.05.9-1", 0),
    ],
)
def test_debian_versions(one: str, other: str, expected: int) -> None:
    assert (compare_dpkg(one, other), compare_dpkg(other, one)) == (expected, -expected)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # Results of rpm.vercmp; `_` and `.` are only separators.
        ("25.05.9-1.el9", "25.05.10-1.el9", -1),
        ("1.0~rc1-1", "1.0-1", -1),
        ("1.0^git1-1", "1.0-1", 1),
        ("1.0^git1-1", "1.0.1-1", -1),
        ("1.0a-1", "1.0-1", 1),
        ("1.0.a-1", "1.0.1-1", -1),
        ("1_0-1", "1.0-1", 0),
        ("1:1.0-1", "2.0-1", 1),
        ("25.11.8-300.ohpc", "25.11.8", 0),
        ("0.5.13-13.el9", "0.5.13-13.el9_7.1", -1),
    ],
)
def test_rpm_versions(one: str, other: str, expected: int) -> None:
    assert (compare_rpm(one, other), compare_rpm(other, one)) == (expected, -expected)
