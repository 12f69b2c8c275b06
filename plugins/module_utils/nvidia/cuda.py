"""What the role cuda installs on a host: toolkits side by side, NCCL, cuDNN; or why what is declared cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ..common.problems import Problem, make_problem
from .cuda_support import driver_fits, generation_fits, least_driver, release_of, version_key
from .driver_choice import GENERATIONS, generation_of_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CudaPlan", "LoginPlan", "Settings", "cuda_plan", "login_plan"]

PIN_PRIORITY = 1001
# NVIDIA's repository for Debian 13 begins with the packages of CUDA 13.1 and driver 590.
NEWEST = {"Debian 13": "13.1"}
USUAL, OLDER = "13.0", "12.9"


class Settings(TypedDict):
    """The options of the role, without its name before them, and the host's distribution with its names of packages.

    Attributes:
        distribution_packages: its own toolkit; none where it carries no CUDA.
        nccl_packages: NCCL and its headers.
        cudnn_packages: cuDNN and its headers, without the suffix of the major version of CUDA.
    """

    source: str
    versions: list[str]
    default_version: str
    absent_versions: list[str]
    packages: list[str]
    nccl: bool
    nccl_version: str
    cudnn: bool
    cudnn_version: str
    hold: bool
    driver: str
    minor_compatibility: bool
    distribution: str
    distribution_packages: list[str]
    nccl_packages: list[str]
    cudnn_packages: list[str]
    modulefiles_path: str


class CudaPlan(TypedDict):
    """What to do; when there are problems nothing else counts.

    Attributes:
        toolkits: release, folder and installed version or pattern of each toolkit.
        default: the release that /usr/local/cuda stands for; '' with the distribution's.
        packages: as the module packages takes them.
        absent: patterns of packages to remove.
        pins: as the role nvidia_repository takes them.
        modulefiles: path and variables of the module file of each toolkit; with state absent those that go.
    """

    problems: list[Problem]
    toolkits: list[dict[str, str]]
    default: str
    packages: list[dict[str, Any]]
    absent: list[str]
    pins: list[dict[str, Any]]
    modulefiles: list[dict[str, Any]]


class LoginPlan(TypedDict):
    """What a login node, which has no toolkit, knows of those of the compute nodes; `modulefiles` as in CudaPlan."""

    default: str
    modulefiles: list[dict[str, Any]]


def newest_release(settings: Settings, generation: str | None) -> str:
    """Return the release for a site that names none: the newest that its driver and its GPUs surely take."""
    if GENERATIONS.get(generation or "") and generation_fits(generation, USUAL):
        return OLDER
    if settings["driver"] and not driver_fits(settings["driver"], least_driver(USUAL, minor_compatibility=True)):
        return OLDER
    return NEWEST.get(settings["distribution"], USUAL)


def cuda_plan(gpu: Mapping[str, Any], settings: Settings, host: str) -> CudaPlan:
    """Return the plan for a host whose hardware profile has `gpu` (its `model`, and `generation` where it says so)."""
    generation = gpu.get("generation") or generation_of_model(str(gpu.get("model") or ""))
    versions = settings["versions"] or [newest_release(settings, generation)]
    plan: CudaPlan = {
        "problems": [],
        "toolkits": [],
        "default": "",
        "packages": [],
        "absent": [],
        "pins": [],
        "modulefiles": [],
    }
    if settings["source"] == "distribution":
        plan["problems"] = distribution_problems(settings, host)
        plan["packages"] = distribution_packages(settings)
        return plan
    try:
        releases = {release_of(version): version for version in versions}
        gone = [release_of(version) for version in settings["absent_versions"]]
        default = release_of(settings["default_version"]) if settings["default_version"] else newest(releases)
    except ValueError as exc:
        plan["problems"] = [
            make_problem([host], "cuda_versions", str(exc), "name releases, best as text: ['12.8', '13.0']")
        ]
        return plan
    plan["problems"] = declared_problems(settings, releases, default, gone, host)
    plan["problems"] += support_problems(settings, releases, default, generation, host)
    plan["default"] = default
    plan["absent"] = [f"cuda-*-{release.replace('.', '-')}" for release in gone]
    for release, version in releases.items():
        add_toolkit(plan, settings, release, version)
    if settings["nccl"]:
        add_nccl(plan, settings, default)
    if settings["cudnn"]:
        add_cudnn(plan, settings, default)
    folders = {toolkit["release"]: toolkit["folder"] for toolkit in plan["toolkits"]}
    plan["modulefiles"] = modulefiles(settings["modulefiles_path"], folders, gone)
    return plan


def newest(releases: Mapping[str, str]) -> str:
    """Return the newest of the releases."""
    return max(releases, key=version_key)


def distribution_problems(settings: Settings, host: str) -> list[Problem]:
    """Return what the distribution's own packages cannot do."""
    found = []
    remedy = "take them from cuda_source=nvidia, or leave them to the distribution"
    if not settings["distribution_packages"]:
        text = f"{settings['distribution']} carries no CUDA of its own"
        found.append(
            make_problem([host], "cuda_source", text, "use NVIDIA's repository or a mirror of it: cuda_source=nvidia")
        )
    found += [
        make_problem([host], f"cuda_{key}", f"the distribution has one version of its own, not {settings[key]}", remedy)
        for key in ("versions", "default_version", "cudnn")
        if settings[key]
    ]
    return found


def distribution_packages(settings: Settings) -> list[dict[str, Any]]:
    """Return the distribution's packages."""
    version, hold = settings["nccl_version"], bool(settings["nccl_version"]) and settings["hold"]
    packages: list[dict[str, Any]] = [{"name": name} for name in settings["distribution_packages"]]
    if settings["nccl"]:
        packages += [{"name": name, "version": version, "hold": hold} for name in settings["nccl_packages"]]
    return packages


def declared_problems(
    settings: Settings, releases: Mapping[str, str], default: str, gone: list[str], host: str
) -> list[Problem]:
    """Return what contradicts itself in the declaration."""
    found = []
    if default not in releases:
        text = f"{default} is none of the toolkits {', '.join(releases)}"
        found.append(make_problem([host], "cuda_default_version", text, "name one of cuda_versions"))
    if both := sorted(set(gone) & set(releases)):
        text = f"{', '.join(both)} is to be installed and to be absent"
        found.append(make_problem([host], "cuda_absent_versions", text, "take it out of one of the two"))
    built_for = settings["nccl_version"].partition("+cuda")[2]
    if settings["nccl"] and built_for and built_for.partition(".")[0] != default.partition(".")[0]:
        text = f"NCCL {settings['nccl_version']} is built for CUDA {built_for}, but {default} is the default toolkit"
        remedy = f"choose one built for CUDA {default.partition('.')[0]}, or leave +cuda… out"
        found.append(make_problem([host], "cuda_nccl_version", text, remedy))
    return found


def support_problems(
    settings: Settings, releases: Mapping[str, str], default: str, generation: str | None, host: str
) -> list[Problem]:
    """Return toolkits that the driver does not run, and a default that makes no code for the GPUs."""
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


def add_toolkit(plan: CudaPlan, settings: Settings, release: str, version: str) -> None:
    """Add a toolkit's packages; one that is named with its patch is pinned and held."""
    names = [f"{package}-{release.replace('.', '-')}" for package in settings["packages"]]
    plan["toolkits"].append({"release": release, "folder": f"/usr/local/cuda-{release}", "version": version})
    exact = version if version != release else ""
    plan["packages"] += [package(name, exact, settings) for name in names]
    if exact:
        plan["pins"].append(pin(names, f"{exact}-*"))


def add_nccl(plan: CudaPlan, settings: Settings, default: str) -> None:
    """Add NCCL and its headers, both in one version that is built for the default toolkit."""
    names, version = settings["nccl_packages"], settings["nccl_version"]
    if not version:
        plan["packages"] += [package(name, f"*+cuda{default}", settings, hold=False) for name in names]
        plan["pins"].append(pin(names, f"*+cuda{default}"))
        return
    if "+cuda" not in version:
        version = f"{version}{'' if '-' in version else '-*'}+cuda{default}"
    plan["packages"] += [package(name, version, settings) for name in names]
    plan["pins"].append(pin(names, version))


def add_cudnn(plan: CudaPlan, settings: Settings, default: str) -> None:
    """Add cuDNN 9 with its headers, built for the default toolkit's major version."""
    major, version = default.partition(".")[0], settings["cudnn_version"]
    names = [f"{name}-cuda-{major}" for name in settings["cudnn_packages"]]
    plan["packages"] += [package(name, version, settings) for name in names]
    if version:
        plan["pins"].append(pin(names, version if "-" in version else f"{version}-*"))


def package(name: str, version: str, settings: Settings, *, hold: bool = True) -> dict[str, Any]:
    """Return a package as the module packages takes it; held when its version is declared and the site wants that."""
    return {"name": name, "version": version, "hold": bool(version) and hold and settings["hold"]}


def pin(names: list[str], version: str) -> dict[str, Any]:
    """Return a pin of packages."""
    return {"packages": " ".join(names), "version": version, "priority": PIN_PRIORITY}


def modulefiles(path: str, folders: Mapping[str, str], gone: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the module files, one for each toolkit, and those that go; none without a path."""
    if not path:
        return []
    kept: list[dict[str, Any]] = [
        {"path": f"{path}/cuda/{release}", "vars": {"release": release, "folder": folder}}
        for release, folder in folders.items()
    ]
    return kept + [{"path": f"{path}/cuda/{release}", "state": "absent"} for release in gone]


def login_plan(versions: Sequence[str], default: str, path: str) -> LoginPlan:
    """Return the module files by which a login node knows the toolkits of the compute nodes.

    Without declared versions it is one, `cuda/default`, of the toolkit that /usr/local/cuda stands for on a node: which
    that is depends on the node's driver.

    Args:
        versions: those declared of the compute nodes.
        default: the declared default, '' for the newest of them.
        path: where module files lie; '' for none.

    Raises:
        ValueError: when one of them is not a valid version.
    """
    releases = {release_of(version): f"/usr/local/cuda-{release_of(version)}" for version in versions}
    chosen = release_of(default) if default else newest(dict.fromkeys(releases, "")) if releases else "default"
    return {"default": chosen, "modulefiles": modulefiles(path, releases or {"default": "/usr/local/cuda"})}
