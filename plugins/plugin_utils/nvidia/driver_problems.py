"""Check the NVIDIA driver options of hosts."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.nvidia.driver_choice import (
    DEFAULT_BRANCH,
    FIRST_OPEN_BRANCH,
    GENERATIONS,
    LAST_PROPRIETARY_BRANCH,
    Generation,
    driver_branch,
    driver_choice,
    known_generation,
    nvlink_racks,
    wanted_parts,
)
from ...module_utils.nvidia.driver_packages import first_branch, no_packages
from ...module_utils.nvidia.repositories import nvidia_repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...module_utils.nvidia.repositories import System

_PREFIX = "nvidia_driver_"
_OPTIONS = (
    "source",
    "branch",
    "version",
    "kernel_modules",
    "build",
    "fabric_manager",
    "nvlsm",
    "imex",
    "imex_nodes",
    "module_parameters",
)
_VERSION = re.compile(r"\d{3,4}\.\d{1,4}(\.\d{1,4})?")
_BRANCH = re.compile(r"\d{3,4}")
_PARTS = {"fabric_manager": "the fabric manager", "nvlsm": "NVLSM", "imex": "IMEX"}


def driver_problems(
    hardware: Mapping[str, Any],
    host: str,
    settings: Mapping[str, Any],
    system: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Return the problems with a host's driver options.

    Args:
        hardware: hardware profile of the host; without `gpu`, nothing is checked.
        host: name of the host.
        settings: `source` (nvidia, distribution, none), `branch`, `version`, `kernel_modules` (auto, open,
            proprietary), `build` (dkms, precompiled), `fabric_manager`, `nvlsm`, `imex` (auto, present, absent),
            `imex_nodes` (addresses), `module_parameters` (module to parameter to value).
        system: `distribution` and `major` (version) as in Ansible's facts; None before facts are gathered, which skips
            the checks that depend on them.
    """
    gpu = hardware.get("gpu")
    if not gpu or settings["source"] == "none":
        return []
    generation = known_generation(gpu)
    found = [*_version_faults(settings)]
    if generation is None:
        found.append(
            (
                "hardware",
                f"the GPU generation of {gpu.get('model')} is unknown, so branch and kernel modules cannot be selected",
                f"correct gpu.model of the hardware, or set gpu.generation to one of {', '.join(GENERATIONS)}",
            )
        )
    branch = None if found else driver_branch(settings, system)
    if generation and branch:
        found += [*_branch_faults(gpu, generation, branch, settings, first_branch(system))]
    found += [*_fabric_faults(hardware, generation, settings), *_parameter_faults(settings)]
    if system and generation and branch and not found:
        why = no_packages(driver_choice(hardware, settings, system, branch))
        found += [("nvidia_driver_build" if "precompiled" in why[0] else "nvidia_driver_source", *why)] if why else []
    return [make_problem([host], *fault) for fault in found]


def site_driver_problems(
    hosts: Sequence[str],
    variables: Mapping[str, Mapping[str, Any]],
    catalogue: Mapping[str, Any],
    systems: Mapping[str, System] | None = None,
) -> list[Problem]:
    """Return the problems with a site's driver options, and with the driver repository of a host.

    Args:
        hosts: hosts that get a driver.
        variables: variables of every host, without the defaults of the nvidia_driver role.
        catalogue: hardware profiles by name.
        systems: the system of each host; None before facts are gathered.
    """
    problems = []
    racks = nvlink_racks(hosts, variables)
    for host in hosts:
        own = variables[host]
        rack = racks.get(str(own.get("nvlink_domain") or "")) or {}
        settings: dict[str, Any] = {"source": "nvidia", "imex_nodes": rack.get("addresses") or []}
        settings |= {key: own[f"{_PREFIX}{key}"] for key in _OPTIONS if f"{_PREFIX}{key}" in own}
        hardware = catalogue.get(str(own.get("hardware") or "")) or {}
        system = (systems or {}).get(host)
        known = {"distribution": system["distribution"], "major": system["major"]} if system else None
        problems += driver_problems(hardware, host, settings, known)
        if system and hardware.get("gpu") and settings["source"] == "nvidia":
            declared = {key: own.get(f"nvidia_repository_{key}") for key in ("urls", "key_urls", "fingerprints")}
            declared["key_file"] = (own.get("nvidia_repository_key_files") or {}).get("cuda")
            problems += nvidia_repository("cuda", system, declared, host)["problems"]
    return problems


def _version_faults(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    branch, version = str(settings.get("branch") or ""), str(settings.get("version") or "")
    if branch and not _BRANCH.fullmatch(branch):
        yield "nvidia_driver_branch", f"{branch!r} is not a driver branch", f"set a number such as {DEFAULT_BRANCH}"
    elif version and not _VERSION.fullmatch(version):
        remedy = "set one such as 580.95.05, without a revision"
        yield "nvidia_driver_version", f"{version!r} is not a valid version", remedy
    elif branch and version and version.partition(".")[0] != branch:
        remedy = "clear one of the two options, or set a version of the branch"
        yield "nvidia_driver_version", f"{version} does not belong to branch {branch}", remedy


def _branch_faults(
    gpu: Mapping[str, Any], generation: Generation, branch: int, settings: Mapping[str, Any], first: int
) -> Iterator[tuple[str, str, str]]:
    key = "nvidia_driver_version" if settings.get("version") and not settings.get("branch") else "nvidia_driver_branch"
    what = f"{gpu['model']} ({generation.name})"
    if branch < generation.least_branch:
        remedy = f"say {DEFAULT_BRANCH}" + (
            ", or nvidia_driver_source: nvidia" if settings["source"] == "distribution" else ""
        )
        yield key, f"branch {branch} is too old for {what} (minimum {generation.least_branch})", remedy
    if generation.last_branch and branch > generation.last_branch:
        remedy = f"set {generation.last_branch}, the last branch that supports it"
        if settings["source"] == "nvidia" and generation.last_branch < first:
            remedy += f", with a mirror that has it: NVIDIA's repository for this system starts with {first}; or set "
            remedy += "nvidia_driver_source: distribution"
        yield key, f"branch {branch} no longer supports {what}", remedy
    chosen = str(settings.get("kernel_modules") or "auto")
    key, auto = "nvidia_driver_kernel_modules", "set auto, which selects the modules that the GPUs need"
    if chosen != "auto" and generation.modules not in {"either", chosen}:
        yield key, f"{what} requires the {generation.modules} modules and does not work with the {chosen} modules", auto
    elif chosen == "open" and branch < FIRST_OPEN_BRANCH:
        yield key, f"branch {branch} has no open modules (first branch: {FIRST_OPEN_BRANCH})", auto
    elif chosen == "proprietary" and branch > LAST_PROPRIETARY_BRANCH:
        yield key, f"branch {branch} has no proprietary modules (last branch: {LAST_PROPRIETARY_BRANCH})", auto


def _fabric_faults(
    hardware: Mapping[str, Any], generation: Generation | None, settings: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    switched = bool(hardware["gpu"].get("nvswitch"))
    domain = int(hardware.get("nvlink_domain_nodes") or 1)
    chosen = [part for part in _PARTS if settings.get(part) == "present"]
    auto = "set auto, or correct the hardware"
    if "fabric_manager" in chosen and not switched:
        problem = "the fabric manager is enabled, but the hardware has no NVSwitch (gpu.nvswitch)"
        yield "nvidia_driver_fabric_manager", problem, auto
    if "nvlsm" in chosen and not (switched and generation and generation.subnet_manager):
        problem = "NVLSM is enabled, but the hardware has no fourth-generation NVSwitch (gpu.nvswitch, Blackwell)"
        yield "nvidia_driver_nvlsm", problem, auto
    if "imex" in chosen and domain == 1:
        problem = "IMEX is enabled, but the hardware is not part of an NVLink rack (nvlink_domain_nodes)"
        yield "nvidia_driver_imex", problem, auto
    elif wanted_parts(hardware, generation, settings)["imex"]:
        yield from _imex_faults(settings.get("imex_nodes") or [], domain)


def _imex_faults(nodes: Sequence[object], domain: int) -> Iterator[tuple[str, str, str]]:
    key = "nvidia_driver_imex_nodes"
    remedy = (
        "set nvlink_domain of each tray to the name of its rack, and ansible_host or hosts_address to its IP address; "
        "or list the addresses of all trays of the rack here, in the same order on all of them"
    )
    if not nodes:
        yield key, f"is empty, but IMEX needs the members of the NVLink rack (up to {domain})", remedy
    wrong = [str(node) for node in nodes if not _is_address(node)]
    if wrong:
        yield key, f"{', '.join(wrong)}: not an address", remedy
    elif len(nodes) > domain:
        yield key, f"has {len(nodes)} members (an NVLink rack of this hardware has {domain})", remedy
    elif len(set(nodes)) < len(nodes):
        yield key, "contains a duplicate member", remedy


def _is_address(text: object) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def _parameter_faults(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    remedy = "write module, parameter and value, such as {nvidia: {NVreg_NvLinkDisable: 1}}"
    for module, parameters in (settings.get("module_parameters") or {}).items():
        place = f"nvidia_driver_module_parameters[{module}]"
        if not str(module).startswith("nvidia"):
            yield place, "is not a kernel module of the driver", remedy
        elif not isinstance(parameters, dict):
            yield place, "is not a mapping of parameters", remedy
        else:
            wrong = [name for name, value in parameters.items() if re.search(r"\s", f"{name}{value}")]
            if wrong:
                yield place, f"{', '.join(wrong)}: the value must not contain a space", remedy
