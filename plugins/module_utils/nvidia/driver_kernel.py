"""What the kernel side of the NVIDIA driver needs on a host: settings, modules, services, and what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .imex import NODES_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .driver_packages import Choice

__all__ = [
    "REBOOT_BY_HAND",
    "drop_ins",
    "imex_nodes",
    "kernel_files",
    "modules_to_load",
    "notes_of",
    "parameter_reasons",
    "parameters_of",
    "services_of",
]

_PERSISTENCE_FILE = "/etc/systemd/system/nvidia-persistenced.service.d/busbar.conf"
_MODULES_FILE = "/etc/modprobe.d/busbar-nvidia.conf"
# Parameters that /proc/driver/nvidia/params shows by another name (kernel-open/nvidia/nv-reg.h of NVIDIA's modules).
_SHOWN_AS = {"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
REBOOT_BY_HAND = (
    "set -e nvidia_driver_reboot=true, which drains, reboots and checks the nodes in batches, or reboot by hand"
)


def modules_to_load(choice: Choice, version: str, found: Mapping[str, Any]) -> list[str]:
    """Return the modules that are to be loaded now: none where the GPUs are held by another driver, or missing.

    CUDA opens /dev/nvidia-uvm as the user, who may not load its module; NVLSM talks through ib_umad.
    """
    if found["nouveau"] or not found["gpus"] or found["loaded"] not in {"", version}:
        return []
    wanted = ["nvidia", "nvidia-uvm", *(["ib_umad"] if choice.nvlsm else [])]
    return [name for name in wanted if not found["modules"][name]]


def parameters_of(settings: Mapping[str, Any], choice: Choice) -> dict[str, dict[str, str]]:
    """Return the modules' parameters; NCCL in an NVLink rack needs the device of an IMEX channel."""
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
    """Return the files of the host, as the module `templates` takes them."""
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
            "content": "# Written by busbar: users open its device and may not load it.\nnvidia-uvm\n",
            "state": state,
        },
        {
            "path": "/etc/modules-load.d/busbar-nvlsm.conf",
            "content": "# Written by busbar: the subnet manager of the NVLinks talks through it.\nib_umad\n",
            "state": "present" if kernel and choice.nvlsm else "absent",
        },
        *(
            [{"path": NODES_FILE, "content": "\n".join(imex_nodes(settings)) + "\n", "state": "present"}]
            if choice.imex
            else []
        ),
    ]


def imex_nodes(settings: Mapping[str, Any]) -> list[str]:
    """Return the declared members of IMEX."""
    return [str(node) for node in settings.get("imex_nodes") or []]


def drop_ins(command: str) -> list[dict[str, str]]:
    """Return what lets the persistence daemon do what it is there for.

    Ubuntu's unit starts it with --no-persistence-mode, and stops it when no device wants it: without a display, the
    driver then lets the GPUs go between two programs, and each of them waits for seconds.
    """
    if not command:
        return []
    off = "--no-persistence-mode"
    text = f"# Written by busbar.\n[Unit]\nStopWhenUnneeded=no\n[Service]\nExecStart=\nExecStart={command}\n"
    state = "present" if off in command.split() else "absent"
    return [{"path": _PERSISTENCE_FILE, "content": text.replace(off, "--persistence-mode"), "state": state}]


def services_of(choice: Choice, units: Mapping[str, Mapping[str, str]], *, started: bool) -> list[dict[str, Any]]:
    """Return the services; one that meets a driver of another version refuses to start, so it waits for the reboot."""
    names = ["nvidia-persistenced"]
    names += ["nvidia-fabricmanager"] if choice.fabric_manager else []
    names += ["nvidia-imex"] if choice.imex else []
    return [{"name": name, "started": started, "right": _is_right(units.get(name, {}), started)} for name in names]


def _is_right(unit: Mapping[str, str], started: bool) -> bool:  # noqa: FBT001 - of two values, by its name
    """Return whether a unit is as it should be; Debian's persistence daemon is static, started by the device."""
    enabled = unit.get("enabled") in {"enabled", "static", "alias", "generated"}
    return enabled and (not started or unit.get("active") == "active")


def parameter_reasons(found: Mapping[str, Any], parameters: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield why the loaded driver needs a reboot for its parameters."""
    running = found.get("parameters") or {}
    for key, value in parameters.get("nvidia", {}).items():
        name = key.removeprefix("NVreg_")
        now = running.get(name, running.get(_SHOWN_AS.get(name, "")))
        if now is not None and now.strip('"') != value.strip('"'):
            yield f"the driver runs with {key}={now}, {value} is declared"


def notes_of(
    settings: Mapping[str, Any], skipped: str, reboot: Sequence[str], found: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what the admin should know: what is left alone and why, a reboot, what Secure Boot wants."""
    if skipped:
        yield f"kernel modules, their settings and the driver's services are left alone: {skipped}"
        return
    if reboot:
        allowed = settings.get("reboot")
        how = (
            "it is drained, rebooted and checked" if allowed else f"{REBOOT_BY_HAND}; until then GPU programs may fail"
        )
        yield f"reboot needed: {'; '.join(reboot)}: {how}"
    if found.get("secure_boot") and settings.get("build") != "precompiled" and not found.get("key_enrolled"):
        key = str(found.get("signing_key") or "")
        way = f"enrol it once: mokutil --import {key}, reboot, and confirm at the console with the password given"
        way = way if key else "it is made with the first module: run again to see its path"
        yield f"Secure Boot is on and loads signed modules only; the key that DKMS signs with is not enrolled: {way}"
