"""The packages of DCGM 4 that a host gets, by its driver and its GPUs.

Sources: DCGM's user guide, "Installation": the core, and for each major version of CUDA that a driver brings a package
of what runs on the GPU; that of the driver's own CUDA is the one to take. CUDA 13 does not know Maxwell, Pascal and
Volta, which therefore take the package of CUDA 12 at most. Drivers from 580 on bring CUDA 13, from 525 on 12, from 450
on 11 (CUDA Toolkit Release Notes). Which driver a host has is read there: what is declared may not be what an image
brought, and Debian's own is 535 or 550.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem
from .cuda_support import version_key
from .driver_choice import generation_of_model

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["cuda_major", "dcgm_plan", "driver_of_libraries"]

# The oldest driver that brings each major version of CUDA.
DRIVERS = {"13": 580, "12": 525, "11": 450}
OLD_GENERATIONS = ("maxwell", "pascal", "volta")
MAJORS = ("11", "12", "13")
PIN_PRIORITY = 1001
_LIBRARY = re.compile(r"/libnvidia-ml\.so\.(\d+(?:\.\d+)+)$", re.MULTILINE)


def driver_of_libraries(paths: str) -> str:
    """Return the driver's version in the paths of its library NVML, the links followed; '' where there is none."""
    found = _LIBRARY.findall(paths)
    return str(max(found, key=version_key)) if found else ""


def cuda_major(gpu: Mapping[str, Any], driver: str) -> str:
    """Return the major version of CUDA whose package a host takes; '' for a driver that none is for, or none at all."""
    numbers = version_key(driver)
    generation = gpu.get("generation") or generation_of_model(str(gpu.get("model") or ""))
    fitting = [major for major, least in DRIVERS.items() if numbers and numbers[0] >= least]
    return next((major for major in fitting if generation not in OLD_GENERATIONS or major != "13"), "")


def _driver_problem(driver: str) -> tuple[str, str, str]:
    """Return key, problem and remedy where no package fits the driver."""
    key = "dcgm_driver_version"
    if version_key(driver):
        return key, f"DCGM 4 has no package for driver {driver}; 450 is the oldest", "install a newer driver"
    said = f"{driver!r} is not a valid version" if driver else "no driver is installed there, and none is declared"
    remedy = (
        "let the role nvidia_driver install one, or the image; else set dcgm_driver_version, or dcgm_cuda, or "
        "dcgm_source: none"
    )
    return key, f"{said}, and DCGM's packages go by the CUDA of the driver", remedy


def dcgm_plan(gpu: Mapping[str, Any], settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return `problems`, `packages` (as the module packages takes them), `pins` and `waits` for a host.

    Args:
        gpu: of its hardware profile.
        settings: `package` (what the names of all packages begin with), `version`, `cuda` (major versions as text;
            empty: by the driver), `proprietary`, `multinode`, `hold`, `driver` (declared to be the host's), `libraries`
            (as driver_of_libraries takes them), `loaded` (version of the kernel module), `branch` (that the site
            declares) and `planned` (whether the driver may only be planned, as in check mode; `waits` then says why no
            package is known yet, and there is no problem).
        host: its name, for messages.
    """
    # The library before the module: until a reboot an older module may be loaded, and DCGM goes by the library.
    read = driver_of_libraries(str(settings["libraries"])) or str(settings["loaded"]).strip()
    driver = str(settings["driver"] or read or settings["branch"])
    majors = [str(major) for major in settings["cuda"]] or [cuda_major(gpu, driver)]
    version, problems, waits = str(settings["version"]), [], ""
    if majors == [""]:
        key, problem, remedy = _driver_problem(driver)
        waits = f"{host}: DCGM waits: {problem}" if settings["planned"] and not driver else ""
        problems += [] if waits else [make_problem([host], key, problem, remedy)]
        majors = []
    if version and version_key(version.partition(":")[2] or version)[:1] != (4,):
        problems.append(
            make_problem(
                [host],
                "dcgm_version",
                f"{version} is not a valid version of DCGM 4",
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
    base = str(settings["package"])
    kinds = [base, *([f"{base}-proprietary"] if settings["proprietary"] else [])]
    kinds += [f"{base}-multinode"] if settings["multinode"] else []
    first = [f"{base}-core", *kinds[1:]]
    names = first + [f"{kind}-cuda{major}" for major in majors for kind in kinds]
    hold = bool(version) and bool(settings["hold"])
    pattern = version if "-" in version else f"{version}-*"
    # A version may come without its epoch; pins want it.
    pattern = pattern if ":" in pattern else f"1:{pattern}"
    return {
        "problems": problems,
        "waits": waits,
        "packages": [] if waits else [{"name": name, "version": version, "hold": hold} for name in names],
        "pins": [{"packages": f"{base}-*", "version": pattern, "priority": PIN_PRIORITY}] if version else [],
    }
