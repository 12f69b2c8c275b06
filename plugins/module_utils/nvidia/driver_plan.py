# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Plan driver packages, their versions, and the kernel changes of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ..common.problems import Problem, make_problem
from .driver_choice import DEFAULT_BRANCH, NODES_FILE, driver_branch, driver_choice, imex_changes
from .driver_host import blocking_reasons, build_problems, is_build_due, version_order
from .driver_packages import (
    FAMILY,
    Choice,
    PackageSet,
    driver_packages,
    is_el,
    lacking_headers,
    replaced_packages,
    wanted_headers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

__all__ = [
    "Offer",
    "driver_plan",
    "driver_version",
    "drop_ins",
    "imex_nodes",
    "lock_key",
    "make_offer",
]

_PINS_FILE = "/etc/apt/preferences.d/busbar-nvidia_driver.pref"
# Module parameters missing from the initramfs apply only to modules that are loaded later.
_INITRAMFS = {"update-initramfs": "update-initramfs -u -k all", "dracut": "dracut --regenerate-all --force"}
_NOT_QUERIED = (
    "the host's repositories could not be queried, so the newest version is unknown",
    "set nvidia_driver_version, such as 580.95.05, or make the repositories reachable",
)
_REMEDY = "set a nvidia_driver_version for which all packages exist, or add them to the mirror"
_REMEDY_LOCKED = (
    "add the cluster's version (nvidia_driver_lock_file) to the mirror, or choose the newest one for "
    "the whole cluster with -e nvidia_driver_upgrade=true"
)
_PERSISTENCE_FILE = "/etc/systemd/system/nvidia-persistenced.service.d/busbar.conf"
_MODULES_FILE = "/etc/modprobe.d/busbar-nvidia.conf"
# /proc/driver/nvidia/params uses other names for these parameters (kernel-open/nvidia/nv-reg.h of NVIDIA's modules).
_SHOWN_AS = {"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
REBOOT_BY_HAND = (
    "run again with -e nvidia_driver_reboot=true to drain, reboot and check the nodes in batches, or reboot manually"
)


class Offer(TypedDict):
    """The driver versions of a branch that are available to a host.

    `key`: name of the branch in the cluster's lock file. `known`: whether the host's repositories were queried.
    `versions`: versions in which all packages are available or installed. `installed`: version of the main package,
    or ''.
    """

    key: str
    known: bool
    versions: list[str]
    installed: str


def driver_plan(
    host: str,
    hardware: Mapping[str, Any],
    settings: Mapping[str, Any],
    system: Mapping[str, Any],
    found: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the plan for a host with a valid declaration.

    Args:
        host: name of the host.
        hardware: its hardware profile.
        settings: as for driver_problems(), with `kernel_parts` (auto, managed, skipped), `kernel_flavour`,
            `locked` (the version in the cluster's lock file) and `check_mode`.
        system: `distribution`, `major`, and `container`, which is set if the host shares another host's kernel.
        found: result of `driver_host.read_driver`; None for a plan that only has `names`.

    Returns:
        `names` (packages to query), `family` (patterns of related packages), `key` (name of the branch in the cluster's
        lock file), `branch`, `modules`; with `found` also `offer` (available versions, for the lock file), `problems`,
        `version` (of the driver, '' if unknown), `packages`, `absent` and `stream` (parameters of the
        `packages` module), `moves` (whether another version is replaced), `imex_moves` (whether the member list of a
        running IMEX changes), `headers` (packages that DKMS needs, in any version), `files` (for the `templates`
        module), `drop_ins` (files for the packages' units), `kernel` (whether kernel parts are managed),
        `services` (each with `name`, `started`, and `right` if it is in that state), `initramfs` (command that
        regenerates it, or ''), `reboot` (reasons for a reboot), `blocked` (problems if GPU programs fail until then),
        `notes` (lines for the administrator). Valid once the packages are installed: `build` (whether to run DKMS
        again), `build_problems`, `load` (modules to load, in order).
    """
    branch = driver_branch(settings, system) or DEFAULT_BRANCH
    choice = driver_choice(hardware, settings, system, branch, str((found or {}).get("kernel_release", "")))
    names = driver_packages(choice)
    skipped = _kernel_skipped(settings, system, found or {})
    if skipped:
        names = names._replace(
            exact=tuple(each for each in names.exact if each not in names.kernel),
            free=tuple(each for each in names.free if each not in names.kernel),
        )
    plan: dict[str, Any] = {
        "names": [*names.exact, *names.free],
        "family": list(FAMILY),
        "key": lock_key(choice.source, choice.distribution, choice.major, branch),
        "branch": branch,
        "modules": choice.modules,
    }
    if found is None:
        return plan
    version, problems = choose_version(host, names, branch, settings, found)
    kernel = not skipped
    parameters = parameters_of(settings, choice)
    loaded = str(found.get("loaded") or "")
    there = "declared" if settings.get("reboot") else "installed"
    blocked = blocking_reasons(version, found, there) if kernel else []
    matches = bool(version) and loaded == version
    absent = replaced_packages(names, found["installed"])
    reboot = [*blocked, *(parameter_reasons(found, parameters) if kernel and matches else [])]
    dkms = kernel and choice.build == "dkms"
    el = is_el(choice.distribution)
    return plan | {
        "offer": make_offer(plan["key"], names, branch, found),
        "problems": [*problems, *(_header_problems(host, found, is_el=el) if dkms else [])],
        "version": version,
        "packages": _wanted(names, version, found),
        "absent": absent,
        "moves": _moves(names, absent, version, found["installed"]),
        "stream": names.stream,
        "headers": wanted_headers(found, is_el=el) if dkms else [],
        "imex_moves": kernel and choice.imex and imex_changes(imex_nodes(settings), found),
        "kernel": kernel,
        "files": [*_pins(choice, version), *kernel_files(choice, settings, parameters, kernel=kernel)],
        "drop_ins": drop_ins(str(found.get("persistence_command") or "")) if kernel else [],
        "services": services_of(choice, found.get("units") or {}, started=matches) if kernel else [],
        "build": dkms and is_build_due(version, found),
        "build_problems": build_problems(host, version, found, dkms=choice.build == "dkms") if kernel else [],
        "load": modules_to_load(choice, version, found) if kernel else [],
        "initramfs": _INITRAMFS.get(str(found.get("initramfs") or ""), "") if kernel else "",
        "reboot": reboot,
        "blocked": [make_problem([host], "NVIDIA driver", f"reboot needed: {'; '.join(blocked)}", REBOOT_BY_HAND)]
        if blocked
        else [],
        "notes": [f"{host}: {note}" for note in notes_of(settings, skipped, reboot, found)],
    }


def _moves(names: PackageSet, absent: Sequence[str], version: str, installed: Mapping[str, str]) -> bool:
    """Return whether installed packages are replaced by another version while programs use them."""
    there = {driver_version(installed[name]) for name in (*names.exact, *absent) if name in installed}
    return bool(version) and bool(there - {version})


def _header_problems(host: str, found: Mapping[str, Any], *, is_el: bool) -> list[Problem]:
    lacking = lacking_headers(found, is_el=is_el)
    if not lacking:
        return []
    problem = f"not in the repositories, which have no packages for the running kernel {found['kernel_release']}"
    remedy = "install the current kernel and reboot the host, or add a repository with these headers; run again"
    return [make_problem([host], lacking, problem, remedy)]


def _kernel_skipped(settings: Mapping[str, Any], system: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return why kernel parts are not managed, or ''."""
    choice = str(settings.get("kernel_parts") or "auto")
    if choice != "auto":
        return "" if choice == "managed" else f"nvidia_driver_kernel_parts is {choice}"
    if system.get("container"):
        return "a container shares the kernel of its host"
    return "no NVIDIA GPU is on the PCI bus" if found and not found["gpus"] else ""


def _wanted(names: PackageSet, version: str, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each package with its version, '' for any; an installed package of that version keeps its revision."""
    wanted: dict[str, str] = {}
    for name in names.exact:
        offers = [each for each in found["available"].get(name, []) if driver_version(each) == version]
        installed = str(found["installed"].get(name, ""))
        kept = installed if version and driver_version(installed) == version else ""
        wanted[name] = kept or max(offers, key=version_order, default=version and f"{version}-*")
    wanted |= dict.fromkeys(names.free, "")
    return [{"name": name, "version": each, "hold": True} for name, each in wanted.items()]


def _pins(choice: Choice, version: str) -> list[dict[str, str]]:
    """Return the pin of the whole family; a priority above 1000 also overrides newer installed versions."""
    if is_el(choice.distribution) or not version:
        return []
    lines = [f"Package: {' '.join(FAMILY)}", f"Pin: version {version}-*", "Pin-Priority: 1001"]
    header = "# Written by busbar: keeps all packages of the NVIDIA driver at one version.\n"
    return [{"path": _PINS_FILE, "content": header + "\n".join(lines) + "\n", "state": "present"}]


def lock_key(source: str, distribution: str, major: str, branch: int) -> str:
    """Return the name of a branch in the lock file; each distribution's packages have separate version numbers."""
    return str(branch) if source == "nvidia" else f"{distribution.lower()}{major}-{branch}"


def driver_version(package: str) -> str:
    """Return the driver version of a package version: '3:570.133.20-1ubuntu1' gives '570.133.20'."""
    return package.rpartition(":")[2].partition("-")[0]


def _is_of_branch(version: str, branch: int) -> bool:
    return version.partition(".")[0] == str(branch)


def _installed(names: PackageSet, found: Mapping[str, Any]) -> dict[str, str]:
    return {name: driver_version(found["installed"].get(name, "")) for name in names.exact}


def _offers(names: PackageSet, found: Mapping[str, Any]) -> dict[str, set[str]]:
    return {name: {driver_version(each) for each in found["available"].get(name, [])} for name in names.exact}


def make_offer(key: str, names: PackageSet, branch: int, found: Mapping[str, Any]) -> Offer:
    """Return the versions available to a host, in ascending order.

    Args:
        key: name of the branch in the cluster's lock file.
        names: packages of the host.
        branch: branch of the driver.
        found: result of `driver_host.read_driver`.
    """
    installed, offers = _installed(names, found), _offers(names, found)
    common = set.intersection(*({*offers[name], installed[name]} for name in names.exact))
    main = installed[names.exact[0]]
    return {
        "key": key,
        "known": bool(found["index"]),
        "versions": sorted((each for each in common if _is_of_branch(each, branch)), key=version_order),
        "installed": main if _is_of_branch(main, branch) else "",
    }


def choose_version(
    host: str, names: PackageSet, branch: int, settings: Mapping[str, Any], found: Mapping[str, Any]
) -> tuple[str, list[Problem]]:
    """Return the driver version ('' if not known yet), and the problems that make it unavailable.

    Precedence: declared version, lock file, installed version, newest version that all packages have.
    """
    declared = str(settings.get("version") or settings.get("locked") or "")
    installed, offers = _installed(names, found), _offers(names, found)
    offer = make_offer("", names, branch, found)
    version = declared or offer["installed"] or (offer["versions"] or [""])[-1]
    # Without an index, as in check mode on a new host, the available versions are unknown.
    if not found["index"]:
        unknown = not version and not settings.get("check_mode")
        return version, [make_problem([host], "nvidia_driver_version", *_NOT_QUERIED)] if unknown else []
    if not version:
        # No version has all packages; report those that the newest version lacks.
        of_branch = [each for each in offers[names.exact[0]] if _is_of_branch(each, branch)]
        version = max(of_branch, key=version_order, default="")
    lacking = [name for name in names.exact if installed[name] != version and version not in offers[name]]
    locked = not settings.get("version") and bool(settings.get("locked"))
    remedy = _REMEDY_LOCKED if locked else _REMEDY
    return version, [_not_offered(host, name, version or f"branch {branch}", offers[name], remedy) for name in lacking]


def _not_offered(host: str, name: str, wanted: str, offers: Collection[str], remedy: str) -> Problem:
    shown = ", ".join(sorted(offers, key=version_order)[-6:])
    problem = f"{wanted} is not available; the repositories have {shown or 'no such package'}"
    if any(part in name for part in ("fabric", "imex", "nscq", "nvsdm")):
        problem += "; its version must equal the driver's"
    return make_problem([host], name, problem, remedy)


def modules_to_load(choice: Choice, version: str, found: Mapping[str, Any]) -> list[str]:
    """Return the modules to load now; empty if another driver uses the GPUs or the host has no GPUs.

    CUDA opens /dev/nvidia-uvm as the user, who cannot load nvidia-uvm; NVLSM uses ib_umad.
    """
    if found["nouveau"] or not found["gpus"] or found["loaded"] not in {"", version}:
        return []
    wanted = ["nvidia", "nvidia-uvm", *(["ib_umad"] if choice.nvlsm else [])]
    return [name for name in wanted if not found["modules"][name]]


def parameters_of(settings: Mapping[str, Any], choice: Choice) -> dict[str, dict[str, str]]:
    """Return the module parameters; NCCL in an NVLink rack needs an IMEX channel device."""
    declared = settings.get("module_parameters") or {}
    merged = {
        str(module): {str(key): _value(value) for key, value in each.items()} for module, each in declared.items()
    }
    if choice.imex:
        merged["nvidia"] = {"NVreg_CreateImexChannel0": "1"} | merged.get("nvidia", {})
    return merged


def _value(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def kernel_files(
    choice: Choice, settings: Mapping[str, Any], parameters: Mapping[str, Mapping[str, str]], *, kernel: bool
) -> list[dict[str, str]]:
    """Return the host's files, as entries for the `templates` module."""
    lines = ["# Written by busbar: nvidia_driver_module_parameters.", "blacklist nouveau", "options nouveau modeset=0"]
    lines += [
        f"options {module} {' '.join(f'{key}={value}' for key, value in each.items())}"
        for module, each in parameters.items()
        if each
    ]
    state = "present" if kernel else "absent"
    return [
        {"path": _MODULES_FILE, "content": "\n".join(lines) + "\n", "state": state},
        {
            "path": "/etc/modules-load.d/busbar-nvidia.conf",
            "content": "# Written by busbar: users cannot load this module themselves.\nnvidia-uvm\n",
            "state": state,
        },
        {
            "path": "/etc/modules-load.d/busbar-nvlsm.conf",
            "content": "# Written by busbar: required by NVLSM, the subnet manager of the NVLinks.\nib_umad\n",
            "state": "present" if kernel and choice.nvlsm else "absent",
        },
        *(
            [{"path": NODES_FILE, "content": "\n".join(imex_nodes(settings)) + "\n", "state": "present"}]
            if choice.imex
            else []
        ),
    ]


def imex_nodes(settings: Mapping[str, Any]) -> list[str]:
    """Return the declared addresses for IMEX's member list."""
    return [str(node) for node in settings.get("imex_nodes") or []]


def drop_ins(command: str) -> list[dict[str, str]]:
    """Return the drop-in that enables persistence mode in the persistence daemon.

    Ubuntu's unit starts the daemon with --no-persistence-mode, and stops it when no device requires it: without a
    display, the driver then releases the GPUs between two programs, and each program start takes seconds longer.
    """
    if not command:
        return []
    off = "--no-persistence-mode"
    text = f"# Written by busbar.\n[Unit]\nStopWhenUnneeded=no\n[Service]\nExecStart=\nExecStart={command}\n"
    state = "present" if off in command.split() else "absent"
    return [{"path": _PERSISTENCE_FILE, "content": text.replace(off, "--persistence-mode"), "state": state}]


def services_of(choice: Choice, units: Mapping[str, Mapping[str, str]], *, started: bool) -> list[dict[str, Any]]:
    """Return the services; they cannot start while another driver version is loaded, so they wait for the reboot."""
    names = ["nvidia-persistenced"]
    names += ["nvidia-fabricmanager"] if choice.fabric_manager else []
    names += ["nvidia-imex"] if choice.imex else []
    return [{"name": name, "started": started, "right": _is_right(units.get(name, {}), started)} for name in names]


def _is_right(unit: Mapping[str, str], started: bool) -> bool:  # noqa: FBT001 - the wanted state
    """Return whether a unit is in the wanted state; Debian's persistence daemon is static, started by the device."""
    enabled = unit.get("enabled") in {"enabled", "static", "alias", "generated"}
    return enabled and (not started or unit.get("active") == "active")


def parameter_reasons(found: Mapping[str, Any], parameters: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a reboot reason for each module parameter whose loaded value differs from the declared one."""
    running = found.get("parameters") or {}
    for key, value in parameters.get("nvidia", {}).items():
        name = key.removeprefix("NVreg_")
        now = running.get(name, running.get(_SHOWN_AS.get(name, "")))
        if now is not None and now.strip('"') != value.strip('"'):
            yield f"the driver runs with {key}={now} (expected {value})"


def notes_of(
    settings: Mapping[str, Any], skipped: str, reboot: Sequence[str], found: Mapping[str, Any]
) -> Iterator[str]:
    """Yield notes for the administrator: unmanaged parts, a required reboot, steps for Secure Boot."""
    if skipped:
        yield f"kernel modules, their settings and the driver's services are not managed: {skipped}"
        return
    if reboot:
        allowed = settings.get("reboot")
        how = (
            "this run drains, reboots and checks the node"
            if allowed
            else f"{REBOOT_BY_HAND}; until then GPU programs may fail"
        )
        yield f"reboot needed: {'; '.join(reboot)}: {how}"
    if found.get("secure_boot") and settings.get("build") != "precompiled" and not found.get("key_enrolled"):
        key = str(found.get("signing_key") or "")
        way = f"enrol it once: mokutil --import {key} with a password, reboot, and enter that password at the console"
        way = way if key else "DKMS creates the key with its first build; run again to see the path"
        yield f"Secure Boot accepts only signed modules, and the signing key of DKMS is not enrolled: {way}"
