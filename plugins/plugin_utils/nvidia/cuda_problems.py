"""Checks the options of the role cuda."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from .cuda_support import driver_fits, generation_fits, least_driver, release_of, version_key

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["cuda_problems"]


def cuda_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the reasons why CUDA cannot be installed as declared.

    Args:
        settings: the checked options of the role without its prefix, `versions` never empty with the source `nvidia`;
            `driver` of the host and `generation` of its GPUs, '' where unknown; `distribution`, its name; and
            `packaged`, whether it has CUDA.
        host: for the messages.
    """
    if settings["source"] == "distribution":
        return _distribution_problems(settings, host)
    try:
        releases = {release_of(str(version)): str(version) for version in settings["versions"]}
        gone = [release_of(str(version)) for version in settings["absent_versions"]]
        declared = str(settings["default_version"])
        default = release_of(declared) if declared else max(releases, key=version_key)
    except ValueError as exc:
        remedy = "name releases, best as text: ['12.8', '13.0']"
        return [make_problem([host], "cuda_versions", str(exc), remedy)]
    problems = _declared_problems(settings, releases, default, gone, host)
    return problems + _support_problems(settings, releases, default, settings["generation"], host)


def _distribution_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the options that the distribution's packages cannot satisfy."""
    found = []
    remedy = "take them from cuda_source=nvidia, or leave them to the distribution"
    if not settings["packaged"]:
        text = f"{settings['distribution']} has no packages of CUDA"
        found.append(
            make_problem([host], "cuda_source", text, "use NVIDIA's repository or a mirror of it: cuda_source=nvidia")
        )
    found += [
        make_problem([host], f"cuda_{key}", f"the distribution has one version, not {settings[key]}", remedy)
        for key in ("versions", "default_version", "cudnn")
        if settings[key]
    ]
    return found


def _declared_problems(
    settings: Mapping[str, Any], releases: Mapping[str, str], default: str, gone: list[str], host: str
) -> list[Problem]:
    """Return the contradictions between options."""
    found = []
    if default not in releases:
        text = f"{default} is not one of the toolkits {', '.join(releases)}"
        found.append(make_problem([host], "cuda_default_version", text, "name one of cuda_versions"))
    if both := sorted(set(gone) & set(releases)):
        text = f"{', '.join(both)} is in cuda_versions too"
        found.append(make_problem([host], "cuda_absent_versions", text, "take it out of one of the two"))
    built_for = settings["nccl_version"].partition("+cuda")[2]
    if settings["nccl"] and built_for and built_for.partition(".")[0] != default.partition(".")[0]:
        text = f"NCCL {settings['nccl_version']} is built for CUDA {built_for}, but {default} is the default toolkit"
        remedy = f"choose one built for CUDA {default.partition('.')[0]}, or leave +cuda… out"
        found.append(make_problem([host], "cuda_nccl_version", text, remedy))
    return found


def _support_problems(
    settings: Mapping[str, Any], releases: Mapping[str, str], default: str, generation: str | None, host: str
) -> list[Problem]:
    """Return toolkits that the driver does not run, and a default without code for the GPUs."""
    found = []
    for release in releases:
        least = least_driver(release, minor_compatibility=settings["minor_compatibility"])
        if least and settings["driver"] and not driver_fits(settings["driver"], least):
            text = f"CUDA {release} needs driver {least} or newer, and this host has {settings['driver']}"
            remedy = "choose an older toolkit, or a newer driver (nvidia_driver_branch)"
            found.append(make_problem([host], "cuda_versions", text, remedy))
    if default in releases and (reason := generation_fits(generation, default)):
        remedy = "choose another release as cuda_default_version, and have it in cuda_versions"
        found.append(make_problem([host], "cuda_default_version", f"CUDA {default} {reason}", remedy))
    return found
