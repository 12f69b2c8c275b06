"""Tests that an installed driver that does not run is reported, with the output of DKMS and nvidia-smi."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_host import unready_reasons
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.driver_plan import driver_plan
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue

CATALOGUE = site_catalogue({})
SYSTEM = {"distribution": "Ubuntu", "major": "24", "container": False}
OLD, NEW, RELEASE = "570.133.20", "580.95.05", "6.8.0-136-generic"
NAMES = driver_plan("gpu1", CATALOGUE["l40s"], {"source": "nvidia"}, SYSTEM)["names"]
# A node directly after the installation of all packages.
FOUND: dict[str, Any] = {
    "available": {name: [f"{NEW}-1"] for name in NAMES},
    "installed": dict.fromkeys(NAMES, f"{NEW}-1") | {f"linux-headers-{RELEASE}": "1"},
    "index": True,
    "loaded": "",
    "parameters": {},
    "kernel_release": RELEASE,
    "kernels": ["linux-image-generic"],
    "headers": True,
    "built": [NEW],
    "dkms": [{"module": "nvidia", "version": NEW, "kernel": RELEASE, "state": "installed"}],
    "make_log": {"path": "", "lines": []},
    "modules": {"nvidia": False, "nvidia-uvm": False, "ib_umad": False},
    "gpus": 8,
    "nouveau": False,
    "units": {},
}
UNBUILT: dict[str, Any] = {"built": [], "dkms": [{"module": "nvidia", "version": NEW, "kernel": "", "state": "added"}]}


def plan(hardware: str = "l40s", **found: Any) -> dict[str, Any]:  # noqa: ANN401 - facts of any type
    return driver_plan("gpu1", CATALOGUE[hardware], {"source": "nvidia"}, SYSTEM, {**FOUND, **found})


def test_built_module_is_loaded_with_nvidia_uvm() -> None:
    made = plan()
    assert (made["build"], made["build_problems"], made["blocked"]) == (False, [], [])
    assert made["load"] == ["nvidia", "nvidia-uvm"]
    loaded = {"nvidia": True, "nvidia-uvm": False, "ib_umad": False}
    assert plan(loaded=NEW, modules=loaded)["load"] == ["nvidia-uvm"]


def test_ib_umad_is_loaded_before_the_fabric_manager_starts() -> None:
    assert plan("dgx_b200")["load"] == ["nvidia", "nvidia-uvm", "ib_umad"]
    assert plan("dgx_h100")["load"] == ["nvidia", "nvidia-uvm"]


@pytest.mark.parametrize("found", [{"nouveau": True}, {"loaded": OLD}, {"gpus": 0}])
def test_nothing_is_loaded_with_another_driver_or_without_gpus(found: dict[str, Any]) -> None:
    # With kernel_parts=auto a host without GPUs would skip all kernel parts, so this test sets managed.
    made = driver_plan(
        "gpu1", CATALOGUE["l40s"], {"source": "nvidia", "kernel_parts": "managed"}, SYSTEM, {**FOUND, **found}
    )
    assert made["load"] == []


def test_dkms_skip_for_missing_headers_is_a_failure() -> None:
    """Debian's nvidia-kernel-dkms and EL's %post (`dkms install || :`) exit 0 in this case."""
    made = plan(**UNBUILT, headers=False)
    assert made["build"] is False
    (problem,) = made["build_problems"]
    assert (problem["hosts"], problem["key"]) == (["gpu1"], "DKMS")
    assert (
        f"driver {NEW} has no kernel module for the running kernel {RELEASE}: the kernel headers are missing in"
        in problem["problem"]
    )
    assert problem["remedy"].startswith(f"install the headers of {RELEASE}, or boot a kernel whose headers")


def test_failed_build_is_reported_with_the_end_of_its_log() -> None:
    path = f"/var/lib/dkms/nvidia/{NEW}/build/make.log"
    made = plan(**UNBUILT, make_log={"path": path, "lines": ["cc: error: x", "make: *** Error 2"]})
    assert made["build"] is True, "it is tried once more first"
    (problem,) = made["build_problems"]
    assert (
        f"the build failed; last lines of {path}:\n        cc: error: x\n        make: *** Error 2"
        in problem["problem"]
    )
    # The log of another version is ignored.
    other = {"path": f"/var/lib/dkms/nvidia/{OLD}/build/make.log", "lines": ["make: *** Error 2"]}
    (problem,) = plan(**UNBUILT, make_log=other)["build_problems"]
    assert problem["problem"].endswith("the DKMS status is nvidia: added")


def test_module_for_a_newer_installed_kernel_needs_a_reboot() -> None:
    newer = {"module": "nvidia", "version": NEW, "kernel": "6.8.0-140-generic", "state": "installed"}
    made = plan(built=[], dkms=[newer], headers=False, available={}, index=False)
    assert made["build_problems"] == []
    reason = f"the driver is built for kernel 6.8.0-140-generic, but {RELEASE} is running"
    assert made["reboot"] == [reason]
    assert made["blocked"][0]["problem"] == f"reboot needed: {reason}"
    older = plan(built=[], dkms=[{**newer, "kernel": "6.8.0-1-generic"}], headers=False, available={}, index=False)
    assert (older["reboot"], len(older["build_problems"])) == ([], 1)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"nouveau": True}, "nouveau is loaded and uses the GPUs"),
        ({"loaded": OLD}, f"the loaded driver is {OLD}, but {NEW} is installed"),
    ],
)
def test_node_that_needs_a_reboot_is_blocked(found: dict[str, Any], reason: str) -> None:
    (problem,) = plan(**found)["blocked"]
    assert problem["problem"] == f"reboot needed: {reason}"
    assert "-e nvidia_driver_reboot=true" in problem["remedy"]


def test_pending_settings_do_not_block_a_node() -> None:
    settings = {"source": "nvidia", "module_parameters": {"nvidia": {"NVreg_Mobile": 1}}}
    found = {**FOUND, "loaded": NEW, "parameters": {"Mobile": "0"}}
    made = driver_plan("gpu1", CATALOGUE["l40s"], settings, SYSTEM, found)
    assert (len(made["reboot"]), made["blocked"]) == (1, [])


def test_kernel_without_available_headers_is_reported_first() -> None:
    made = plan(headers=False, installed={}, **UNBUILT)
    (problem,) = made["problems"]
    assert problem["key"] == f"linux-headers-{RELEASE}"
    assert problem["remedy"].startswith("install the current kernel and reboot the host")


@pytest.mark.parametrize(
    ("installed", "moves"),
    [
        ({}, False),
        (dict.fromkeys(NAMES, f"{NEW}-1"), False),
        ({**dict.fromkeys(NAMES, f"{NEW}-1"), NAMES[0]: f"{OLD}-1"}, True),
        # Ubuntu's package names contain the branch.
        ({"nvidia-utils-570": f"{OLD}-1"}, True),
        ({"nvidia-utils-580-server": f"{NEW}-1"}, False),
        ({"nvidia-container-toolkit": "1.18.0-1"}, False),
    ],
)
def test_replacing_another_version_requires_a_drained_node(installed: dict[str, str], *, moves: bool) -> None:
    assert plan(installed=installed)["moves"] is moves


JOINED = {"state": "Completed", "status": "Success"}


def gpus(*fabrics: dict[str, str] | None, **given: Any) -> dict[str, Any]:  # noqa: ANN401 - as given
    listed = [
        {"index": index, "lost": False, "fabric": fabric, "mig_mode": None} for index, fabric in enumerate(fabrics)
    ]
    return {"smi_state": "ok", "errors": [], "gpus": listed, **given}


@pytest.mark.parametrize(
    ("loaded", "found", "reasons"),
    [
        (NEW, gpus(*[JOINED] * 8), []),
        ("", gpus(*[JOINED] * 8), [f"no driver is loaded, {NEW} is declared"]),
        (OLD, gpus(*[JOINED] * 8), [f"the driver {OLD} is loaded, {NEW} is declared"]),
        (NEW, gpus(*[JOINED] * 7), ["7 of 8 GPUs answer"]),
        (NEW, gpus(smi_state="failed", errors=["No devices were found"]), ["nvidia-smi: No devices were found"]),
        (NEW, gpus(smi_state="absent"), ["nvidia-smi: absent"]),
        (
            NEW,
            gpus(*[JOINED] * 7, {"state": "In Progress"}),
            ["GPU 7: wrong fabric state (found In Progress, expected Completed)"],
        ),
        (
            NEW,
            gpus(*[JOINED] * 7, {"state": "Completed", "status": "Insufficient Resources"}),
            ["GPU 7: could not join its fabric: Insufficient Resources"],
        ),
        # Since Hopper nvidia-smi reports the fabric state, so a missing state is a problem.
        (NEW, gpus(*[JOINED] * 7, None), ["GPU 7: nvidia-smi does not report its fabric state"]),
    ],
)
def test_reasons_for_an_unusable_driver_are_listed(loaded: str, found: dict[str, Any], reasons: list[str]) -> None:
    asked = (CATALOGUE["dgx_h100"], NEW, {**FOUND, "loaded": loaded}, found)
    assert unready_reasons(*asked, fabric_manager=True) == reasons


def test_fabric_state_is_not_required_of_older_gpus() -> None:
    found, silent = {**FOUND, "loaded": NEW}, gpus(*[None] * 8)
    assert unready_reasons(CATALOGUE["dgx_a100"], NEW, found, silent, fabric_manager=True) == []
    assert unready_reasons(CATALOGUE["dgx_h100"], NEW, found, silent, fabric_manager=False) == []
    for gpu in silent["gpus"]:
        gpu["mig_mode"] = "Enabled"
    assert unready_reasons(CATALOGUE["dgx_h100"], NEW, found, silent, fabric_manager=True) == []


def test_lost_gpu_counts_as_not_answering() -> None:
    found = gpus(*[JOINED] * 8)
    found["gpus"][3]["lost"] = True
    state = {**FOUND, "loaded": NEW}
    assert unready_reasons(CATALOGUE["dgx_h100"], NEW, state, found, fabric_manager=True) == ["7 of 8 GPUs answer"]
