"""Tests that the driver moves from 570 to 580 and back in one transaction on each distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia import driver_host
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_plan import driver_plan, driver_version
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from driver_indexes import KERNEL, NEW, OLD, debian_index, el_index, ubuntu_index
from played_apt import HAS_APT, PlayedApt
from played_dnf import PlayedDnf
from played_module import Ended, Machine, PlayedModule

if TYPE_CHECKING:
    from pathlib import Path

CATALOGUE = site_catalogue({})
ROCKY_KERNEL = "5.14.0-570.12.1.el9_6.x86_64"
STATE: dict[str, Any] = {
    "loaded": "",
    "parameters": {},
    "built": [],
    "dkms": [],
    "make_log": {"path": "", "lines": []},
    "modules": {"nvidia": False, "nvidia-uvm": False, "ib_umad": False},
    "gpus": 8,
    "nouveau": False,
    "units": {},
}
# Packages with an independent version.
FREE = {"dkms", "nvlsm", "infiniband-diags", "python3-dnf-plugin-versionlock"}


def plan(host: Any, system: dict[str, Any], kernel: str, hardware: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the plan for the host in its present state."""
    settings = {"source": "nvidia", **given}
    names = driver_plan("gpu1", CATALOGUE[hardware], settings, system)
    module = PlayedModule(host, {}, check_mode=False)
    headers = not host.installed.keys().isdisjoint({f"linux-headers-{kernel}", "kernel-devel"})
    offered = driver_host.packages(module, kernel, names["names"], names["family"])
    found = {**STATE, "kernel_release": kernel, "headers": headers, **offered}
    made = driver_plan("gpu1", CATALOGUE[hardware], settings, system, found)
    assert made["problems"] == []
    return made


def apply(machine: Machine, made: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    """Apply the plan to the packages, as the role does."""
    return machine.run(
        check=check,
        name=made["headers"],
        packages=made["packages"],
        absent=made["absent"],
        family={"names": made["family"], "version": made["version"]},
        stream=made["stream"],
    )


def of_driver(versions: dict[str, str]) -> dict[str, str]:
    """Return the packages that must have the driver's version."""
    return {
        name: driver_version(version)
        for name, version in versions.items()
        if name not in FREE and not name.startswith(("linux-", "kernel-"))
    }


@pytest.mark.skipif(not HAS_APT, reason="needs apt")
@pytest.mark.parametrize("hardware", ["dgx_h100", "dgx_b200"])
@pytest.mark.parametrize(("distribution", "major"), [("Debian", "12"), ("Ubuntu", "22"), ("Ubuntu", "24")])
def test_driver_is_upgraded_and_downgraded_with_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distribution: str, major: str, hardware: str
) -> None:
    system = {"distribution": distribution, "major": major, "container": False}
    host = PlayedApt(tmp_path / "host", debian_index() if distribution == "Debian" else ubuntu_index())
    machine, kernel = Machine(host, tmp_path / "locks", monkeypatch), KERNEL[distribution]
    for version in (OLD, NEW, OLD):
        made = plan(host, system, kernel, hardware, version=version)
        host.pin(made["files"])
        before = host.versions()
        assert apply(machine, made, check=True)["changed"]
        assert host.versions() == before
        apply(machine, made)
        assert sum(" install " in line for line in host.commands) == 1, "one transaction"
        mine = of_driver(host.versions())
        assert {name: each for name, each in mine.items() if each != version} == {}, (
            "nothing of the other version is left"
        )
        assert {name for name in mine if name not in host.held()} == set()
        assert f"linux-headers-{kernel}" in host.versions()
        again = plan(host, system, kernel, hardware, version=version)
        assert not apply(machine, again)["changed"]
        assert not again["moves"]
        # An upgrade by the admin changes none of these packages.
        status, said, _ = host.real(["apt-get", "-y", "--simulate", "dist-upgrade"])
        assert (status, [line for line in said.splitlines() if line.startswith(("Inst", "Remv"))]) == (0, [])


@pytest.mark.parametrize("hardware", ["dgx_h100", "dgx_b200"])
def test_driver_is_upgraded_and_downgraded_with_dnf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hardware: str
) -> None:
    system = {"distribution": "Rocky", "major": "9", "container": False}
    host = PlayedDnf(tmp_path / "versionlock.list", *el_index(ROCKY_KERNEL))
    machine = Machine(host, tmp_path / "versionlock.list", monkeypatch)
    for version in (OLD, NEW, OLD):
        made = plan(host, system, ROCKY_KERNEL, hardware, version=version)
        apply(machine, made)
        mine = of_driver({name: item.plain for name, item in host.installed.items()})
        assert {name: each for name, each in mine.items() if each != version} == {}
        locked = {host.locked_name(line) for line in host.lines()}
        assert {name for name in mine if name not in locked} == set()
        assert {"kernel-devel", "kernel-devel-matched"} <= host.installed.keys()
        again = plan(host, system, ROCKY_KERNEL, hardware, version=version)
        assert not apply(machine, again)["changed"]


def test_newest_version_is_found_on_el_before_its_stream_is_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = {"distribution": "Rocky", "major": "9", "container": False}
    host = PlayedDnf(tmp_path / "versionlock.list", *el_index(ROCKY_KERNEL))
    machine = Machine(host, tmp_path / "versionlock.list", monkeypatch)
    made = plan(host, system, ROCKY_KERNEL, "dgx_b200")
    assert (made["version"], host.streams) == (NEW, {})
    apply(machine, made)
    assert set(of_driver({name: item.plain for name, item in host.installed.items()}).values()) == {NEW}


@pytest.mark.skipif(not HAS_APT, reason="needs apt")
def test_failed_package_script_is_reported_with_the_remaining_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old version is already removed, so the message must not claim that nothing changed."""
    system = {"distribution": "Debian", "major": "12", "container": False}
    host = PlayedApt(tmp_path / "host", debian_index())
    machine = Machine(host, tmp_path / "locks", monkeypatch)
    made = plan(host, system, KERNEL["Debian"], "l40s", version=OLD)
    host.pin(made["files"])
    apply(machine, made)
    host.failing = {"nvidia-kernel-open-dkms"}
    made = plan(host, system, KERNEL["Debian"], "l40s", version=NEW)
    host.pin(made["files"])
    with pytest.raises(Ended) as told:
        apply(machine, made)
    text = str(told.value)
    assert f"the host differs from its previous state: nvidia-kernel-open-dkms {NEW}-1 (half-configured)" in text
    assert "remedy: fix the reported error, run dpkg --configure -a (see dpkg --audit), and run again" in text
    assert "E: Sub-process /usr/bin/dpkg returned an error code (1)" in text
    # After the cause is fixed, the next run completes the change.
    host.failing = set()
    apply(machine, plan(host, system, KERNEL["Debian"], "l40s", version=NEW))
    assert set(of_driver(host.versions()).values()) == {NEW}
