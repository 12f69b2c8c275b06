"""Check whether the installed driver is running (kernel module, GPUs, fabric), and why a reboot is needed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from .driver_choice import known_generation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["blocking_reasons", "build_problems", "is_build_due", "unready_reasons"]

_INSTALLED = "installed"


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release))


def is_built(version: str, found: Mapping[str, Any]) -> bool:
    """Return whether the running kernel has a module of the version; DKMS may skip a build without an error."""
    return version in found["built"]


def is_build_due(version: str, found: Mapping[str, Any]) -> bool:
    """Return whether DKMS could still build the module for the running kernel, for example after installing headers."""
    return bool(version) and not is_built(version, found) and bool(found["headers"])


def _next_kernel(version: str, found: Mapping[str, Any]) -> str:
    """Return a newer kernel for which DKMS has built the version, or ''."""
    kernels = [
        str(item["kernel"])
        for item in found["dkms"]
        if item["version"] == version and item["state"] == _INSTALLED and item["kernel"]
    ]
    newer = [kernel for kernel in kernels if _order(kernel) > _order(str(found["kernel_release"]))]
    return max(newer, key=_order, default="")


def blocking_reasons(version: str, found: Mapping[str, Any], there: str = "installed") -> list[str]:
    """Return why GPU programs fail on a host with installed driver packages until a reboot.

    Args:
        version: version of the driver, '' if unknown.
        found: result of `driver_host.read_driver`.
        there: `installed`, or `declared` if that version is not installed yet.
    """
    loaded = str(found["loaded"] or "")
    reasons = ["nouveau is loaded and uses the GPUs"] if found["nouveau"] else []
    if loaded and version and loaded != version:
        reasons.append(f"the loaded driver is {loaded}, but {version} is {there}")
    elif version and not is_built(version, found) and (kernel := _next_kernel(version, found)):
        reasons.append(f"the driver is built for kernel {kernel}, but {found['kernel_release']} is running")
    return reasons


def build_problems(host: str, version: str, found: Mapping[str, Any], *, dkms: bool) -> list[Problem]:
    """Return why the running kernel has no module of the installed driver, with the last lines of DKMS's log."""
    if not version or is_built(version, found) or _next_kernel(version, found):
        return []
    release = str(found["kernel_release"])
    problem = f"driver {version} has no kernel module for the running kernel {release}"
    if not dkms:
        return [
            make_problem([host], "nvidia_driver_build", problem, "boot a kernel for which precompiled modules exist")
        ]
    log, states = found["make_log"], [item for item in found["dkms"] if item["version"] == version]
    if not found["headers"]:
        why = f"the kernel headers are missing in /lib/modules/{release}/build"
        remedy = f"install the headers of {release}, or boot a kernel whose headers the repositories have; run again"
    elif f"/{version}/" in log["path"]:
        why = "the build failed; last lines of " + "\n        ".join([f"{log['path']}:", *log["lines"]])
        remedy = "choose a nvidia_driver_version that builds with this kernel, or boot another kernel; run again"
    else:
        status = ", ".join(f"{item['module']}: {item['state']}" for item in states) or "empty"
        why = f"the DKMS status is {status}"
        remedy = f"run `dkms autoinstall -k {release}` on the host and fix its errors; run again"
    return [make_problem([host], "DKMS", f"{problem}: {why}", remedy)]


def unready_reasons(
    hardware: Mapping[str, Any],
    version: str,
    found: Mapping[str, Any],
    gpus: Mapping[str, Any],
    *,
    fabric_manager: bool,
) -> list[str]:
    """Return why the driver of a host is not usable yet; the fabric takes some time to start.

    Args:
        hardware: hardware profile of the host.
        version: wanted driver version.
        found: result of `driver_host.read_driver`.
        gpus: result of `driver_host.read_answering_gpus`.
        fabric_manager: whether the host runs the fabric manager.
    """
    loaded = str(found["loaded"] or "")
    if loaded != version:
        return [f"{f'the driver {loaded}' if loaded else 'no driver'} is loaded, {version} is declared"]
    if gpus["smi_state"] != "ok":
        return [f"nvidia-smi: {next(iter(gpus['errors']), gpus['smi_state'])}"]
    answering = [gpu for gpu in gpus["gpus"] if not gpu["lost"]]
    expected = int(hardware["gpu"]["count"])
    reasons = [] if len(answering) == expected else [f"{len(answering)} of {expected} GPUs answer"]
    return [*reasons, *(_fabric(hardware, answering) if fabric_manager else [])]


def _fabric(hardware: Mapping[str, Any], gpus: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why GPUs have not joined the fabric; GPUs older than Hopper and GPUs with MIG report no fabric state."""
    generation = known_generation(hardware["gpu"])
    may_report_nothing = generation is None or not generation.fabric_state
    for gpu in gpus:
        fabric = gpu.get("fabric") or {}
        state, status = str(fabric.get("state") or ""), str(fabric.get("status") or "")
        if not state and (may_report_nothing or str(gpu.get("mig_mode") or "").lower() == "enabled"):
            continue
        if not state:
            yield f"GPU {gpu['index']}: nvidia-smi does not report its fabric state"
        elif state != "Completed":
            yield f"GPU {gpu['index']}: wrong fabric state (found {state}, expected Completed)"
        elif status and status != "Success":
            yield f"GPU {gpu['index']}: could not join its fabric: {status}"
