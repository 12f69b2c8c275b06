"""Checks the options of the cuda role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.nvidia.cuda_support import (
    driver_fits,
    generation_fits,
    least_driver,
    release_of,
    version_key,
)
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RELEASES = ("versions", "default_version", "absent_versions")


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the reasons why CUDA cannot be installed as declared.

    Args:
        options: the checked options of the role without its prefix (`versions` is not empty with the source
            `nvidia`); `driver` of the host and `generation` of its GPUs, '' if unknown; `distribution`, its name;
            and `packaged`: whether it has CUDA. Without `driver` the function checks only the releases.
        cluster: the `host`.
    """
    host = cluster.get("host", "")
    if "packaged" in options and options["source"] == "distribution":
        return _distribution_problems(options, host)
    wrong = [
        make_problem([host], *fault) for key in _RELEASES if key in options for fault in _faults(key, options[key])
    ]
    if wrong or "driver" not in options:
        return wrong
    releases = {release_of(str(version)): str(version) for version in options["versions"]}
    gone = [release_of(str(version)) for version in options["absent_versions"]]
    declared = str(options["default_version"])
    default = release_of(declared) if declared else max(releases, key=version_key)
    problems = _declared_problems(options, releases, default, gone, host)
    return problems + _support_problems(options, releases, default, options["generation"], host)


def _faults(key: str, value: Any) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401 - a release, or a list of them
    for version in value if isinstance(value, list) else filter(None, [value]):
        try:
            release_of(str(version))
        except ValueError as exc:
            yield f"cuda_{key}", str(exc), "list releases as strings: ['12.8', '13.0']"


def _distribution_problems(options: Known, host: str) -> list[Problem]:
    """Return the options that the distribution's packages cannot satisfy."""
    found = []
    remedy = "set cuda_source to nvidia, or remove this option to use the distribution's version"
    if not options["packaged"]:
        text = f"{options['distribution']} has no CUDA packages"
        found.append(make_problem([host], "cuda_source", text, "set cuda_source to nvidia"))
    found += [
        make_problem([host], f"cuda_{key}", f"the distribution has only one version, not {options[key]}", remedy)
        for key in ("versions", "default_version", "cudnn")
        if options[key]
    ]
    return found


def _declared_problems(
    options: Known, releases: Mapping[str, str], default: str, gone: list[str], host: str
) -> list[Problem]:
    """Return the contradictions between options."""
    names = [release_of(str(version)) for version in options["versions"]]
    remedy = "only one toolkit per release can be installed: keep one of them"
    found = [
        make_problem([host], "cuda_versions", f"CUDA {name} is listed {names.count(name)} times", remedy)
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    if default not in releases:
        text = f"{default} is not one of the toolkits {', '.join(releases)}"
        found.append(make_problem([host], "cuda_default_version", text, "use one of cuda_versions"))
    if both := sorted(set(gone) & set(releases)):
        text = f"{', '.join(both)} is also listed in cuda_versions"
        found.append(make_problem([host], "cuda_absent_versions", text, "remove it from one of the two lists"))
    built_for = options["nccl_version"].partition("+cuda")[2]
    if options["nccl"] and built_for and built_for.partition(".")[0] != default.partition(".")[0]:
        text = f"NCCL {options['nccl_version']} is built for CUDA {built_for}, but {default} is the default toolkit"
        remedy = f"choose a version built for CUDA {default.partition('.')[0]}, or remove +cuda…"
        found.append(make_problem([host], "cuda_nccl_version", text, remedy))
    return found


def _support_problems(
    options: Known, releases: Mapping[str, str], default: str, generation: str | None, host: str
) -> list[Problem]:
    """Return toolkits that the driver does not support, and a default toolkit that does not support the GPUs."""
    found = []
    for release in releases:
        least = least_driver(release, minor_compatibility=options["minor_compatibility"])
        if least and options["driver"] and not driver_fits(options["driver"], least):
            text = f"CUDA {release} needs driver {least} or newer (found {options['driver']})"
            remedy = "choose an older toolkit, or a newer driver (nvidia_driver_branch)"
            found.append(make_problem([host], "cuda_versions", text, remedy))
    if default in releases and (reason := generation_fits(generation, default)):
        remedy = "choose another cuda_default_version, and add it to cuda_versions"
        found.append(make_problem([host], "cuda_default_version", f"CUDA {default} {reason}", remedy))
    return found
