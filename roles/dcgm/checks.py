"""Checks the options of the role dcgm."""

from __future__ import annotations

from ...plugins.plugin_utils.nvidia.cuda_support import version_key
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

MAJORS = ("11", "12", "13")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the reasons why DCGM cannot be installed.

    Args:
        options: `version` of the role; `driver` of the host; `majors`, the major versions of CUDA whose packages it
            gets, '' for an unsupported driver; and `waits`: whether the driver is not installed yet.
        cluster: the `host`.
    """
    host, problems = cluster.get("host", ""), []
    version = str(options.get("version") or "")
    majors = [str(each) for each in options.get("majors") or options.get("cuda") or []]
    if "" in majors and not options["waits"]:
        problem, remedy = _driver_problem(str(options["driver"]))
        problems.append(make_problem([host], "dcgm_driver_version", problem, remedy))
    if version and version_key(version.partition(":")[2] or version)[:1] != (4,):
        remedy = "name one such as 4.4.1-1; older ones have other packages and are out of support"
        problem = f"{version} is not a valid version of DCGM 4"
        problems.append(make_problem([host], "dcgm_version", problem, remedy))
    if unknown := sorted(set(majors) - {"", *MAJORS}):
        remedy = f"name major versions, of {', '.join(MAJORS)}; empty goes by the driver"
        problem = f"DCGM 4 has no package for CUDA {', '.join(unknown)}"
        problems.append(make_problem([host], "dcgm_cuda", problem, remedy))
    return problems


def _driver_problem(driver: str) -> tuple[str, str]:
    """Return problem and remedy for a driver that no package supports."""
    if version_key(driver):
        return f"DCGM 4 has no package for driver {driver}; 450 is the oldest", "install a newer driver"
    problem = f"{driver!r} is not a valid version" if driver else "no driver is installed there, and none is declared"
    remedy = "let the role nvidia_driver install one, or the image; else set dcgm_driver_version, or dcgm_cuda, or"
    return f"{problem}, and DCGM's packages go by the CUDA of the driver", f"{remedy} dcgm_source: none"
