"""Tests of a host's driver packages: names by source and distribution, exact versions, and reboots."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_plan import driver_plan, driver_version
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue

CATALOGUE = site_catalogue({})
DEBIAN = {"distribution": "Debian", "major": "12", "container": False}
UBUNTU = {"distribution": "Ubuntu", "major": "24", "container": False}
UBUNTU_26 = {**UBUNTU, "major": "26"}
ROCKY = {"distribution": "Rocky", "major": "9", "container": False}
FOUND: dict[str, Any] = {
    "available": {},
    "installed": {},
    "index": True,
    "loaded": "",
    "parameters": {},
    "kernel_release": "6.8.0-136-generic",
    "gpus": 8,
    "nouveau": False,
    "secure_boot": False,
    "signing_key": "",
    "key_enrolled": False,
    "initramfs": "update-initramfs",
    "units": {},
    "kernels": ["linux-image-6.8.0-136-generic", "linux-image-generic"],
    "headers": True,
    "built": ["580.95.05"],
    "dkms": [],
    "make_log": {"path": "", "lines": []},
    "modules": {"nvidia": False, "nvidia-uvm": False, "ib_umad": False},
}
DEBIAN_OPEN = "nvidia-driver-cuda nvidia-persistenced nvidia-modprobe nvidia-kernel-open-dkms"
DEBIAN_FREE = "nvidia-persistenced nvidia-modprobe"
UBUNTU_570 = "libnvidia-compute-570 nvidia-utils-570 nvidia-persistenced nvidia-modprobe"
EL = "nvidia-driver-cuda nvidia-persistenced nvidia-modprobe"
UBUNTU_OWN = "nvidia-headless-no-dkms-580-server-open nvidia-utils-580-server nvidia-dkms-580-server-open"
OLD, NEW = "570.133.20", "580.95.05"


def plan(hardware: str, system: dict[str, Any], found: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    return driver_plan("gpu1", CATALOGUE[hardware], {"source": "nvidia", **given}, system, found)


def versions(made: dict[str, Any]) -> dict[str, str]:
    """Return the packages of a plan with their versions; all are held."""
    assert all(each["hold"] for each in made["packages"])
    return {each["name"]: each["version"] for each in made["packages"]}


def offering(*versions: str, names: list[str], **given: Any) -> dict[str, Any]:  # noqa: ANN401 - facts of any type
    available = {name: [f"{version}-1" for version in versions] for name in names}
    return {**FOUND, "available": available, **given}


@pytest.mark.parametrize(
    ("hardware", "system", "given", "names"),
    [
        ("l40s", DEBIAN, {}, DEBIAN_OPEN),
        ("dgx_h100", {**DEBIAN, "major": "13"}, {}, f"{DEBIAN_OPEN} nvidia-fabricmanager libnvidia-nscq"),
        ("dgx1", DEBIAN, {}, "nvidia-driver-cuda nvidia-persistenced nvidia-modprobe nvidia-kernel-dkms"),
        (
            "l40s",
            DEBIAN,
            {"branch": "550"},
            "libcuda1 nvidia-smi nvidia-persistenced nvidia-modprobe nvidia-kernel-dkms",
        ),
        (
            "dgx_h100",
            DEBIAN,
            {"branch": "570"},
            f"{DEBIAN_OPEN} nvidia-fabricmanager-570 libnvidia-nscq-570",
        ),
        (
            "dgx_h100",
            DEBIAN,
            {},
            f"{DEBIAN_OPEN} nvidia-fabricmanager libnvidia-nscq",
        ),
        (
            "dgx_b200",
            DEBIAN,
            {},
            f"{DEBIAN_OPEN} nvidia-fabricmanager libnvidia-nscq libnvsdm nvlsm infiniband-diags",
        ),
        ("gb200_nvl72", DEBIAN, {}, f"{DEBIAN_OPEN} nvidia-imex"),
        (
            "gb200_nvl72",
            UBUNTU,
            {"branch": "570"},
            f"{UBUNTU_570} nvidia-dkms-570-open nvidia-imex-570",
        ),
        ("l40s", UBUNTU, {"branch": "595"}, "libnvidia-compute nvidia-persistenced nvidia-modprobe nvidia-dkms-open"),
        ("dgx1", UBUNTU, {}, f"{UBUNTU_570.replace('570', '580')} nvidia-dkms-580"),
        (
            "dgx_a100",
            UBUNTU,
            {"source": "distribution"},
            f"{UBUNTU_OWN} nvidia-fabricmanager-580 libnvidia-nscq-580 nvidia-modprobe",
        ),
        (
            "l40s",
            DEBIAN,
            {"source": "distribution"},
            "libcuda1 libnvidia-ml1 nvidia-smi nvidia-kernel-dkms nvidia-persistenced nvidia-modprobe",
        ),
        (
            "l40s",
            DEBIAN,
            {"source": "distribution", "kernel_modules": "open"},
            "libcuda1 libnvidia-ml1 nvidia-smi nvidia-open-kernel-dkms nvidia-persistenced nvidia-modprobe",
        ),
        (
            "l40s",
            {**DEBIAN, "major": "13"},
            {"source": "distribution", "branch": "535"},
            f"libnvidia-tesla-535-cuda1 nvidia-tesla-535-smi nvidia-tesla-535-kernel-dkms {DEBIAN_FREE}",
        ),
        (
            "dgx_h100",
            ROCKY,
            {"version": NEW},
            f"{EL} kmod-nvidia-open-dkms nvidia-fabricmanager libnvidia-nscq",
        ),
        (
            "dgx_a100",
            UBUNTU_26,
            {"source": "distribution"},
            f"{UBUNTU_OWN.replace('580', '595')} nvidia-fabricmanager-595 libnvidia-nscq-595 nvidia-modprobe",
        ),
        ("l40s", UBUNTU_26, {}, "libnvidia-compute nvidia-persistenced nvidia-modprobe nvidia-dkms-open"),
        (
            "dgx2",
            ROCKY,
            {"version": OLD},
            f"{EL} kmod-nvidia-latest-dkms nvidia-fabric-manager libnvidia-nscq-570",
        ),
    ],
)
def test_package_names_follow_source_and_distribution(
    hardware: str, system: dict[str, Any], given: dict[str, Any], names: str
) -> None:
    assert plan(hardware, system, **given)["names"] == names.split()


@pytest.mark.parametrize(("major", "stream"), [("9", "nvidia-driver:580-open"), ("10", "")])
def test_el_10_has_no_module_streams(major: str, stream: str) -> None:
    made = plan("dgx_h100", {**ROCKY, "major": major}, offering(NEW, names=[*EL.split(), "kmod-nvidia-open-dkms"]))
    assert made["stream"] == stream
    assert made["names"] == plan("dgx_h100", ROCKY)["names"]


def test_precompiled_modules_follow_the_kernel() -> None:
    found = {**FOUND, "index": False}
    given: dict[str, Any] = {"source": "distribution", "build": "precompiled"}
    assert plan("l40s", UBUNTU, found, **given)["names"][-3:-1] == [
        "linux-modules-nvidia-580-server-open-6.8.0-136-generic",
        "linux-modules-nvidia-580-server-open-generic",
    ]
    given["kernel_flavour"] = "generic-hwe-24.04"
    assert plan("l40s", UBUNTU, found, **given)["names"][-2] == "linux-modules-nvidia-580-server-open-generic-hwe-24.04"


@pytest.mark.parametrize(("modules", "stream"), [("open", "580-open"), ("proprietary", "580-dkms")])
def test_el_uses_the_module_stream_of_the_branch(modules: str, stream: str) -> None:
    made = plan("l40s", ROCKY, FOUND | {"index": False}, version=NEW, kernel_modules=modules)
    assert made["stream"] == f"nvidia-driver:{stream}"
    assert versions(made)["nvidia-driver-cuda"] == f"{NEW}-*"
    assert [item["path"] for item in made["files"]][:1] == ["/etc/modprobe.d/busbar-nvidia.conf"]


@pytest.mark.parametrize(
    ("given", "installed", "version"),
    [
        ({}, "", "580.105.08"),
        ({"branch": "570"}, "", OLD),
        ({"version": NEW}, "", NEW),
        # The installed version is kept until another is declared.
        ({}, NEW, NEW),
        ({"version": "580.105.08"}, NEW, "580.105.08"),
        ({"version": OLD}, NEW, OLD),
        ({"branch": "570"}, NEW, OLD),
    ],
)
def test_version_is_declared_kept_or_the_newest(given: dict[str, Any], installed: str, version: str) -> None:
    names = plan("l40s", DEBIAN, **given)["names"]
    found = offering(OLD, NEW, "580.105.08", "590.48.01", names=names)
    found["installed"] = dict.fromkeys(names, f"{installed}-1") if installed else {}
    made = plan("l40s", DEBIAN, found, **given)
    assert (made["version"], made["problems"]) == (version, [])
    assert versions(made) == dict.fromkeys(names, f"{version}-1")
    assert f"\nPin: version {version}-*\nPin-Priority: 1001\n" in made["files"][0]["content"]


def test_fabric_manager_of_another_version_is_refused() -> None:
    names = plan("dgx_h100", DEBIAN)["names"]
    found = offering(NEW, names=names)
    found["available"]["nvidia-fabricmanager"] = ["580.82.07-1"]
    (problem,) = plan("dgx_h100", DEBIAN, found)["problems"]
    assert problem["key"] == "nvidia-fabricmanager"
    assert problem["problem"].startswith(f"{NEW} is not available; the repositories have 580.82.07; its version")
    # Installed packages need no repository.
    found["installed"] = dict.fromkeys(names, f"{NEW}-1")
    assert plan("dgx_h100", DEBIAN, found)["problems"] == []


def test_unavailable_version_is_reported_with_the_available_ones() -> None:
    found = offering(NEW, names=plan("l40s", DEBIAN)["names"])
    problems = plan("l40s", DEBIAN, found, version="580.65.06")["problems"]
    assert [item["problem"] for item in problems] == [f"580.65.06 is not available; the repositories have {NEW}"] * 4
    assert plan("l40s", DEBIAN, {**FOUND, "index": False}, version="580.65.06")["problems"] == []


def test_packages_of_another_branch_or_flavour_are_removed() -> None:
    names = plan("dgx_h100", DEBIAN)["names"]
    found = offering(NEW, names=names)
    found["installed"] = {
        "nvidia-fabricmanager-570": f"{OLD}-1",
        "libnvidia-nscq-570": f"{OLD}-1",
        "nvidia-kernel-dkms": f"{OLD}-1",
        "nvidia-container-toolkit": "1.18.0-1",
        "nvidia-settings": f"{OLD}-1",
    }
    removed = ["libnvidia-nscq-570", "nvidia-fabricmanager-570", "nvidia-kernel-dkms"]
    assert plan("dgx_h100", DEBIAN, found)["absent"] == removed


def test_packages_named_after_another_branch_are_removed_on_ubuntu() -> None:
    found = offering(NEW, names=plan("l40s", UBUNTU)["names"])
    left = ["libnvidia-common-570", "nvidia-dkms-570-open", "nvidia-driver-570-server-open", "nvidia-firmware-570"]
    stay = ["libnvidia-cfg1-580", "nvidia-container-toolkit", "cuda-toolkit-12-8", "linux-image-6.8.0-136-generic"]
    found["installed"] = dict.fromkeys([*left, *stay], f"{OLD}-1")
    assert plan("l40s", UBUNTU, found)["absent"] == left


@pytest.mark.parametrize(
    ("system", "found", "given", "why"),
    [
        ({**DEBIAN, "container": True}, {}, {}, "a container shares the kernel of its host"),
        (DEBIAN, {"gpus": 0}, {}, "no NVIDIA GPU is on the PCI bus"),
        (DEBIAN, {}, {"kernel_parts": "skipped"}, "nvidia_driver_kernel_parts is skipped"),
    ],
)
def test_unmanaged_kernel_parts_are_left_unchanged_and_reported(
    system: dict[str, Any], found: dict[str, Any], given: dict[str, str], why: str
) -> None:
    names = plan("dgx_h100", DEBIAN)["names"]
    made = plan("dgx_h100", system, offering(NEW, names=names, loaded=OLD, nouveau=True, **found), **given)
    assert made["notes"] == [f"gpu1: kernel modules, their settings and the driver's services are not managed: {why}"]
    assert "nvidia-kernel-open-dkms" not in versions(made)
    assert "nvidia-fabricmanager" in versions(made)
    assert (made["services"], made["reboot"], made["load"], made["initramfs"]) == ([], [], [], "")
    assert (made["headers"], made["build"], made["build_problems"], made["blocked"]) == ([], False, [], [])
    assert [item["path"] for item in made["files"] if item["state"] == "present"] == [
        "/etc/apt/preferences.d/busbar-nvidia_driver.pref"
    ]


@pytest.mark.parametrize(
    ("found", "given", "reasons"),
    [
        ({"loaded": NEW}, {}, []),
        ({}, {}, []),
        ({"loaded": OLD}, {}, [f"the loaded driver is {OLD}, but {NEW} is installed"]),
        ({"loaded": OLD}, {"reboot": True}, [f"the loaded driver is {OLD}, but {NEW} is declared"]),
        ({"nouveau": True}, {}, ["nouveau is loaded and uses the GPUs"]),
        (
            {"loaded": NEW, "parameters": {"NvLinkDisable": "0", "Mobile": "1"}},
            {"module_parameters": {"nvidia": {"NVreg_NvLinkDisable": True, "NVreg_Mobile": 1}}},
            ["the driver runs with NVreg_NvLinkDisable=0 (expected 1)"],
        ),
        # The driver reports this parameter under its registry name.
        (
            {"loaded": NEW, "parameters": {"RmProfilingAdminOnly": "1"}},
            {"module_parameters": {"nvidia": {"NVreg_RestrictProfilingToAdminUsers": 0}}},
            ["the driver runs with NVreg_RestrictProfilingToAdminUsers=1 (expected 0)"],
        ),
    ],
)
def test_reasons_for_a_reboot_are_listed(found: dict[str, Any], given: dict[str, Any], reasons: list[str]) -> None:
    names = plan("l40s", DEBIAN)["names"]
    made = plan("l40s", DEBIAN, offering(NEW, names=names, **found), **given)
    assert made["reboot"] == reasons
    assert any("reboot needed" in note for note in made["notes"]) == bool(reasons)


def test_services_wait_for_the_matching_driver() -> None:
    names = plan("dgx_h100", DEBIAN)["names"]
    good = {"enabled": "enabled", "active": "active"}
    units = {"nvidia-persistenced": good, "nvidia-fabricmanager": {"enabled": "disabled", "active": "inactive"}}
    made = plan("dgx_h100", DEBIAN, offering(NEW, names=names, loaded=NEW, units=units))
    assert made["services"] == [
        {"name": "nvidia-persistenced", "started": True, "right": True},
        {"name": "nvidia-fabricmanager", "started": True, "right": False},
    ]
    made = plan("dgx_h100", DEBIAN, offering(NEW, names=names, loaded=OLD, units={}))
    assert [service["started"] for service in made["services"]] == [False, False]


def test_rack_gets_its_imex_members_and_a_channel() -> None:
    names = plan("gb300", DEBIAN)["names"]
    made = plan("gb300", DEBIAN, offering(NEW, names=names), imex_nodes=["10.0.0.1", "10.0.0.2"])
    files = {item["path"]: item for item in made["files"]}
    assert files["/etc/nvidia-imex/nodes_config.cfg"]["content"] == "10.0.0.1\n10.0.0.2\n"
    assert "\noptions nvidia NVreg_CreateImexChannel0=1\n" in files["/etc/modprobe.d/busbar-nvidia.conf"]["content"]
    assert [service["name"] for service in made["services"]] == ["nvidia-persistenced", "nvidia-imex"]
    assert files["/etc/modules-load.d/busbar-nvlsm.conf"]["state"] == "absent"


@pytest.mark.parametrize(
    ("active", "text", "moves"),
    [
        ("active", "10.0.0.1\n10.0.0.2\n", False),
        ("active", "10.0.0.1\n\n10.0.0.2", False),
        ("active", "10.0.0.2\n10.0.0.1\n", True),
        ("active", "10.0.0.1\n", True),
        ("active", "", True),
        # A stopped service reads the new list when it starts.
        ("inactive", "10.0.0.1\n", False),
        ("failed", "", False),
    ],
)
def test_changed_members_of_a_running_imex_need_an_idle_rack(active: str, text: str, moves: bool) -> None:  # noqa: FBT001
    names = plan("gb300", DEBIAN)["names"]
    units = {"nvidia-imex": {"enabled": "enabled", "active": active}}
    found = offering(NEW, names=names, loaded=NEW, units=units, imex_nodes=text)
    assert plan("gb300", DEBIAN, found, imex_nodes=["10.0.0.1", "10.0.0.2"])["imex_moves"] is moves
    assert plan("dgx_h100", DEBIAN, found)["imex_moves"] is False


def test_host_with_fourth_generation_nvswitch_gets_nvlsm_and_ib_umad() -> None:
    made = plan("dgx_b200", DEBIAN, offering(NEW, names=plan("dgx_b200", DEBIAN)["names"]))
    files = {item["path"]: item for item in made["files"]}
    assert files["/etc/modules-load.d/busbar-nvlsm.conf"]["content"].endswith("\nib_umad\n")
    assert versions(made)["nvlsm"] == ""


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"signing_key": "/var/lib/dkms/mok.pub"}, "enrol it once: mokutil --import /var/lib/dkms/mok.pub"),
        ({}, "run again to see the path"),
        ({"signing_key": "/var/lib/dkms/mok.pub", "key_enrolled": True}, None),
    ],
)
def test_secure_boot_is_explained(found: dict[str, Any], words: str | None) -> None:
    names = plan("l40s", DEBIAN)["names"]
    notes = plan("l40s", DEBIAN, offering(NEW, names=names, secure_boot=True, **found))["notes"]
    assert (words is None and not notes) or (words is not None and words in notes[0])


@pytest.mark.parametrize("text", ["570.133.20-1", "3:570.133.20-1.el9", "570.133.20-0ubuntu1", "570.133.20"])
def test_driver_version_is_derived_from_the_package_version(text: str) -> None:
    assert driver_version(text) == OLD


UBUNTUS = "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose"


@pytest.mark.parametrize(
    ("command", "states"),
    [
        (UBUNTUS, ["present"]),
        # The unit of Debian and of NVIDIA's packages of later branches is left unchanged.
        ("/usr/bin/nvidia-persistenced --user nvpd", ["absent"]),
        ("", []),
    ],
)
def test_persistence_daemon_enables_persistence_mode(command: str, states: list[str]) -> None:
    found = offering(NEW, names=plan("l40s", UBUNTU)["names"], persistence_command=command)
    made = plan("l40s", UBUNTU, found)["drop_ins"]
    assert [file["state"] for file in made] == states
    if "present" in states:
        assert made[0]["path"] == "/etc/systemd/system/nvidia-persistenced.service.d/busbar.conf"
        assert made[0]["content"].splitlines()[1:] == [
            "[Unit]",
            "StopWhenUnneeded=no",
            "[Service]",
            "ExecStart=",
            "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode --verbose",
        ]


def test_nvidia_uvm_is_loaded_at_boot() -> None:
    made = plan("l40s", DEBIAN, offering(NEW, names=plan("l40s", DEBIAN)["names"]))
    files = {item["path"]: item for item in made["files"]}
    assert files["/etc/modules-load.d/busbar-nvidia.conf"]["content"].endswith("\nnvidia-uvm\n")
    assert files["/etc/modules-load.d/busbar-nvidia.conf"]["state"] == "present"
