"""Tests of the packages module with a fake dnf and versionlock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from played_dnf import PLUGIN, PlayedDnf, Rpm
from played_module import Ended, Machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., tuple[Machine, PlayedDnf]]

OLD, NEW, NEWER = "3:570.133.20-1.el9", "3:580.95.05-1.el9", "3:580.105.08-1.el9"
INSTALL = "dnf -y --setopt=install_weak_deps=False"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that makes a host with these repositories, installed packages and versionlock lines."""

    def make(*available: Rpm, installed: tuple[Rpm, ...] = (), locks: str | None = None) -> tuple[Machine, PlayedDnf]:
        path = tmp_path / "versionlock.list"
        host = PlayedDnf(path, *available)
        host.installed = {item.name: item for item in installed}
        if locks is not None:
            path.write_text(locks)
            host.installed[PLUGIN] = Rpm(PLUGIN, "4.3.0-20.el9")
        return Machine(host, path, monkeypatch), host

    return make


def wanted(name: str, version: str = "", *, hold: bool | None = None) -> dict[str, Any]:
    return {"name": name, "version": version, "hold": hold}


def driver(version: str) -> tuple[Rpm, ...]:
    """Return a driver of two packages, one of which requires the other."""
    return Rpm("nvidia-driver-cuda", version, (f"libnvidia-ml = {version}",)), Rpm("libnvidia-ml", version)


def declared(version: str) -> dict[str, Any]:
    family = {"names": ["nvidia-*", "libnv*"], "version": version}
    return {"packages": [wanted("nvidia-driver-cuda", f"{version}-*", hold=True)], "family": family}


def versions(host: PlayedDnf) -> dict[str, str]:
    return {name: item.version for name, item in host.installed.items() if name != PLUGIN}


def lines(host: PlayedDnf) -> set[str]:
    return set(host.lines())


@pytest.mark.parametrize("provided", [True, False])
def test_any_provider_of_a_name_is_accepted(make: Make, *, provided: bool) -> None:
    other = Rpm("tzdata-legacy", "2025-1", provides=("tzdata",) if provided else ())
    machine, _ = make(Rpm("tzdata", "2026-1"), installed=(Rpm("chrony", "4.6-1"), other))
    assert machine.run(name=["chrony", "tzdata"])["installed"] == ([] if provided else ["tzdata"])
    assert machine.changing() == ([] if provided else [f"{INSTALL} install tzdata"])


def test_lock_is_removed_before_its_package_changes_and_absent_packages_are_removed(make: Make) -> None:
    installed = (Rpm("libnccl", "2.26-1"), Rpm("old", "1-1"))
    machine, host = make(Rpm("libnccl", "2.27.5-1"), installed=installed, locks="libnccl-0:2.26-1.*\n")
    result = machine.run(packages=[wanted("libnccl", "2.27.5", hold=True)], absent=["old"])
    assert machine.changing() == [
        "dnf -q versionlock delete libnccl-0:2.26-1.*",
        f"{INSTALL} --allowerasing install libnccl-2.27.5",
        "dnf -y remove old",
        "dnf -q versionlock add libnccl",
    ]
    assert (versions(host), lines(host)) == ({"libnccl": "2.27.5-1"}, {"libnccl-0:2.27.5-1.*"})
    assert result["removed"] == ["old"]


def test_driver_is_upgraded_and_downgraded_with_its_dependencies_and_locked(make: Make) -> None:
    machine, host = make(*driver(OLD), *driver(NEW), *driver(NEWER))
    for version in (OLD, NEW, OLD):
        plain = version[2:].partition("-")[0]
        assert machine.run(**declared(plain))["changed"]
        assert versions(host) == dict.fromkeys(("nvidia-driver-cuda", "libnvidia-ml"), version)
        assert lines(host) == {f"nvidia-driver-cuda-{version}.*", f"libnvidia-ml-{version}.*"}
        assert not machine.run(**declared(plain))["changed"], "what is locked in its version is right"


def test_lock_of_another_version_is_replaced(make: Make) -> None:
    """`versionlock add` skips a package with an old lock and exits 0; that lock would then block 580 permanently."""
    stale = f"# Added lock on Sun Nov 22 12:00:00 2026\nnvidia-driver-cuda-{OLD}.*\nlibnvidia-ml-{OLD}.*\n"
    machine, host = make(*driver(NEW), installed=driver(NEW), locks=stale)
    assert machine.run(**declared("580.95.05"))["held"] == ["libnvidia-ml", "nvidia-driver-cuda"]
    assert lines(host) == {f"nvidia-driver-cuda-{NEW}.*", f"libnvidia-ml-{NEW}.*"}


def test_manual_lock_is_replaced_and_a_lock_of_a_longer_name_kept(make: Make) -> None:
    by_hand = "nvidia-driver-cuda-570.*\ncuda-toolkit-12-8-0:12.8.1-1.*\n"
    machine, host = make(*driver(OLD), *driver(NEW), installed=driver(OLD), locks=by_hand)
    machine.run(**declared("580.95.05"))
    assert versions(host)["nvidia-driver-cuda"] == NEW
    assert "cuda-toolkit-12-8-0:12.8.1-1.*" in lines(host)
    assert "nvidia-driver-cuda-570.*" not in lines(host)


def test_failed_transaction_keeps_the_locks(make: Make) -> None:
    both = f"nvidia-driver-cuda-{OLD}.*\nlibnvidia-ml-{OLD}.*\n"
    broken = Rpm("nvidia-driver-cuda", NEW, ("nvidia-kmod-common",))
    machine, host = make(broken, *driver(OLD), installed=driver(OLD), locks=both)
    with pytest.raises(Ended, match=r"requires nvidia-kmod-common, which is provided by nothing"):
        machine.run(**declared("580.95.05"))
    assert versions(host)["nvidia-driver-cuda"] == OLD
    assert lines(host) == set(both.split())


def test_version_excluded_by_the_admin_is_not_installed(make: Make) -> None:
    machine, host = make(*driver(NEW), locks=f"!nvidia-driver-cuda-{NEW}.*\n")
    with pytest.raises(Ended, match=r"Unable to find a match: nvidia-driver-cuda-580\.95\.05-\*"):
        machine.run(**declared("580.95.05"))
    assert versions(host) == {}


def test_lock_of_a_removed_package_is_removed(make: Make) -> None:
    old = Rpm("nvidia-fabric-manager", OLD)
    machine, host = make(*driver(NEW), installed=(*driver(NEW), old), locks=f"nvidia-fabric-manager-{OLD}.*\n")
    machine.run(**declared("580.95.05"), absent=["nvidia-fabric-manager"])
    assert not [line for line in lines(host) if line.startswith("nvidia-fabric-manager")]


def test_package_sharing_a_file_is_installed_after_the_removal(make: Make) -> None:
    """In a downgrade no package obsoletes the newer name."""
    files = ("/usr/bin/nv-fabricmanager",)
    old = Rpm("nvidia-fabric-manager", OLD, files=files)
    newer = Rpm("nvidia-fabricmanager", NEW, files=files)
    machine, host = make(*driver(OLD), old, newer, installed=(newer,))
    fabric = wanted("nvidia-fabric-manager", "570.133.20-*", hold=True)
    machine.run(packages=[fabric], absent=["nvidia-fabricmanager"])
    assert versions(host) == {"nvidia-fabric-manager": OLD}


def test_packages_removed_by_a_failed_installation_are_reported(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ("/usr/bin/nv-fabricmanager",)
    old = Rpm("nvidia-fabric-manager", OLD, files=files)
    newer = Rpm("nvidia-fabricmanager", NEW, files=files)
    machine, host = make(old, installed=(newer,))
    real = host.remove

    def remove(names: list[str]) -> tuple[int, str, str]:
        monkeypatch.setattr(host, "available", [])  # the mirror goes away
        return real(names)

    monkeypatch.setattr(host, "remove", remove)
    with pytest.raises(Ended, match=r"removed before the failed installation: nvidia-fabricmanager"):
        machine.run(packages=[wanted("nvidia-fabric-manager", "570.133.20-*")], absent=["nvidia-fabricmanager"])


def test_module_stream_is_switched_before_the_packages(make: Make) -> None:
    packages = [
        Rpm("nvidia-driver-cuda", version, stream=stream) for version, stream in ((OLD, "570-open"), (NEW, "580-open"))
    ]
    machine, host = make(*packages)
    for stream, version in (("570-open", OLD), ("580-open", NEW)):
        plain = version[2:].partition("-")[0]
        machine.run(**declared(plain), stream=f"nvidia-driver:{stream}")
        assert (host.streams, versions(host)) == ({"nvidia-driver": stream}, {"nvidia-driver-cuda": version})
    assert not machine.run(**declared(plain), stream="nvidia-driver:580-open")["changed"]


def test_files_are_installed_instead_of_names(make: Make) -> None:
    machine, host = make()
    machine.run(name=["gdrcopy"], files=["/var/cache/gdrcopy.rpm"])
    assert machine.changing() == [f"{INSTALL} install /var/cache/gdrcopy.rpm"]
    assert "nogpgcheck" not in host.commands[-1]
