"""The role dcgm selects its packages by the driver on the host, and refuses a host without a known driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plays import play_of, played

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = {"name": "Show the packages", "ansible.builtin.debug": {"msg": "packages: {{ __dcgm_names | join(' ') }}"}}
PLAY = play_of("dcgm", "dcgm", SHOWN)
PLAY[0]["tasks"][0]["ansible.builtin.include_role"]["public"] = True
GIVEN = {
    "__dcgm_hardware": {"gpu": {"model": "NVIDIA H100 80GB HBM3"}},
    "__dcgm_library_paths": "{{ own_paths }}",
    "dcgm_proprietary": False,
}


def run(folder: Path, *options: str, **drivers: str) -> tuple[int, str]:
    """Run the role up to the package list for named hosts with libraries of these drivers; nothing is installed."""
    hosts = {}
    for host, version in drivers.items():
        library = folder / host / "libnvidia-ml.so.1"
        library.parent.mkdir(exist_ok=True)
        if version:
            library.with_name(f"libnvidia-ml.so.{version}").touch()
            library.symlink_to(f"libnvidia-ml.so.{version}")
        hosts[host] = {"own_paths": [str(folder / "absent.so.1"), str(library)]}
    return played(folder, PLAY, {"hosts": hosts}, *options, given=GIVEN)


def test_a_host_without_a_driver_is_refused_and_skipped_in_check_mode(tmp_path: Path) -> None:
    code, said = run(tmp_path, bare="")
    assert code != 0
    assert "bare: dcgm_driver_version: no driver is installed or declared" in said, said
    assert "dcgm_source: none" in said
    code, said = run(tmp_path, "--check", bare="")
    assert (code, "bare: DCGM was skipped: no driver is installed" in said) == (0, True), said


def test_installed_library_selects_the_packages(tmp_path: Path) -> None:
    options = ["--check", "--skip-tags", "dcgm", "-e", "nvidia_driver_branch=570"]
    _code, said = run(tmp_path, *options, old="535.247.01", new="580.95.05")
    for host, major in (("old", "cuda12"), ("new", "cuda13")):
        shown = f"[{host}] => msg: 'packages: datacenter-gpu-manager-4-core datacenter-gpu-manager-4-{major}"
        assert shown in said, said
