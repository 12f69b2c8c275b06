"""The packages of DCGM 4 that a host gets, by its driver and its GPUs.

Sources: DCGM's user guide, "Installation": the core, and for each major version of CUDA that a driver brings a package
of what runs on the GPU; that of the driver's own CUDA is the one to take. CUDA 13 does not know Maxwell, Pascal and
Volta, which therefore take the package of CUDA 12 with any driver. Drivers from 580 on bring CUDA 13, from 525 on 12
(CUDA Toolkit Release Notes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem
from ..hardware.gpu_generations import generation_of_model
from .cuda_support import version_key

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OLD_PACKAGES", "dcgm_plan"]

BASE = "datacenter-gpu-manager-4"
# DCGM 3 and older: all in one package; its parts and those of version 4 exclude each other.
OLD_PACKAGES = ["datacenter-gpu-manager", "datacenter-gpu-manager-config", "datacenter-gpu-manager-fabricmanager"]
CUDA_13_DRIVER = 580
OLD_GENERATIONS = ("maxwell", "pascal", "volta")
MAJORS = ("11", "12", "13")
PIN_PRIORITY = 1001


def cuda_major(gpu: Mapping[str, Any], driver: str) -> str:
    """Return the major version of CUDA whose package a host takes; 13 where the driver is not known."""
    generation = gpu.get("generation") or generation_of_model(str(gpu.get("model") or ""))
    if generation in OLD_GENERATIONS:
        return "12"
    return "13" if not driver or version_key(driver)[0] >= CUDA_13_DRIVER else "12"


def dcgm_plan(gpu: Mapping[str, Any], settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return `problems`, `packages` (as the module packages takes them), `absent` and `pins` for a host.

    `settings` holds `version`, `cuda` (major versions as text; empty: by the driver), `proprietary`, `multinode`,
    `hold` and `driver`.
    """
    majors = [str(major) for major in settings["cuda"]] or [cuda_major(gpu, str(settings["driver"]))]
    version, problems = str(settings["version"]), []
    if version and version_key(version.partition(":")[2] or version)[:1] != (4,):
        problems.append(
            make_problem(
                [host],
                "dcgm_version",
                f"{version} is no version of DCGM 4",
                "name one such as 4.4.1-1; older ones have other packages and are out of support",
            )
        )
    if unknown := sorted(set(majors) - set(MAJORS)):
        problems.append(
            make_problem(
                [host],
                "dcgm_cuda",
                f"DCGM 4 has no package for CUDA {', '.join(unknown)}",
                f"name major versions, of {', '.join(MAJORS)}; empty goes by the driver",
            )
        )
    kinds = [BASE, *([f"{BASE}-proprietary"] if settings["proprietary"] else [])]
    kinds += [f"{BASE}-multinode"] if settings["multinode"] else []
    first = [f"{BASE}-core", *kinds[1:]]
    names = first + [f"{kind}-cuda{major}" for major in majors for kind in kinds]
    hold = bool(version) and bool(settings["hold"])
    pattern = version if "-" in version else f"{version}-*"
    # A version may come without its epoch; pins want it.
    pattern = pattern if ":" in pattern else f"1:{pattern}"
    return {
        "problems": problems,
        "packages": [{"name": name, "version": version, "hold": hold} for name in names],
        "absent": OLD_PACKAGES,
        "pins": [{"packages": f"{BASE}-*", "version": pattern, "priority": PIN_PRIORITY}] if version else [],
    }
