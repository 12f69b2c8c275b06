"""Find faults of individual GPUs without a hardware profile: lost, ECC, memory repairs, fabric, throttling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .pci_devices import normal_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["GpuFault", "gpu_faults", "gpu_label", "persistent_faults", "temporary_faults"]

# NVIDIA's criterion for replacing a board, from "Dynamic Page Retirement".
_MOST_RETIRED_PAGES = 60
_RESET = "drain the node and reset the GPU (nvidia-smi --gpu-reset -i INDEX) or reboot"
_REPLACE = "drain the node and have the board replaced"
# Only hardware protection counts; power caps and idle clocks are normal.
_SLOWDOWNS = {
    "hw_slowdown": "clocks are limited by the hardware",
    "hw_thermal_slowdown": "clocks are limited by temperature",
    "hw_power_brake_slowdown": "clocks are limited by the power brake of the server",
}
_FABRIC_FAULTS = {
    "bandwidth": {"degraded"},
    "route_unhealthy": {"true"},
    "access_timeout_recovery": {"true"},
}
_FABRIC_REMEDY = (
    "check the fabric manager (systemctl status nvidia-fabricmanager, nvidia-smi -q -i INDEX) and the "
    "NVLink switches and trays; then reset the GPU"
)


class GpuFault(NamedTuple):
    """A fault of a GPU, and its remedy, in which INDEX stands for the GPU's index."""

    problem: str
    remedy: str

    @property
    def needs_replacement(self) -> bool:
        """Whether only a new board fixes the fault."""
        return self.remedy == _REPLACE


def gpu_label(gpu: Mapping[str, Any]) -> str:
    """Return a GPU's PCI address and serial number, if known."""
    serial = str(gpu.get("serial") or "")
    known = serial and " " not in serial and set(serial) != {"0"}
    where = normal_address(str(gpu["pci_bus_id"])) if gpu.get("pci_bus_id") else "address unknown"
    return f"{where}, serial {serial}" if known else where


def gpu_faults(gpu: Mapping[str, Any]) -> list[GpuFault]:
    """Return the faults of one GPU from parse_query(); missing values are not faults."""
    return [*persistent_faults(gpu), *temporary_faults(gpu)]


def persistent_faults(gpu: Mapping[str, Any]) -> list[GpuFault]:
    """Return the persistent faults of one GPU."""
    if gpu["lost"]:
        remedy = "drain the node and reboot it; if it is lost again (dmesg: Xid 79), have the board replaced"
        return [GpuFault("is lost: the driver cannot reach it", remedy)]
    fabric = gpu.get("fabric") or {}
    return [*_silence(gpu), *_ecc(gpu), *_repairs(gpu), *_fabric(fabric), *_action(gpu)]


def temporary_faults(gpu: Mapping[str, Any]) -> list[GpuFault]:
    """Return the temporary faults of one GPU, such as thermal throttling."""
    return [] if gpu["lost"] else [*_throttling(gpu)]


def _silence(gpu: Mapping[str, Any]) -> Iterator[GpuFault]:
    """Yield faults that nvidia-smi reports in place of values."""
    odd = {str(text).strip("[]").lower() for text in gpu.get("odd_texts") or ()}
    if "gpu requires reset" in odd:
        yield GpuFault("requires a reset", _RESET)
    elif odd & {"unknown error", "err!"} and gpu["memory_total_mib"] is None:
        remedy = "look for Xid and NVRM in dmesg, drain the node and reboot it"
        yield GpuFault("returns an error for every query", remedy)


def _ecc(gpu: Mapping[str, Any]) -> Iterator[GpuFault]:
    errors = gpu["ecc_volatile_uncorrected_total"]
    if errors:
        remedy = f"{_RESET}; if they recur, have the board replaced"
        yield GpuFault(f"{errors} uncorrectable ECC errors since the driver was loaded", remedy)
    if gpu["ecc_sram_threshold_exceeded"]:
        yield GpuFault("the count of uncorrectable SRAM errors exceeds the threshold", _REPLACE)


def _repairs(gpu: Mapping[str, Any]) -> Iterator[GpuFault]:
    """Yield memory repairs that failed or need a reset."""
    rows, pages = gpu.get("remapped_rows") or {}, gpu.get("retired_pages") or {}
    if rows.get("failure"):
        yield GpuFault("remapping of a memory row failed", _REPLACE)
    if rows.get("pending"):
        yield GpuFault("a memory row is pending remapping", _RESET)
    if pages.get("pending"):
        yield GpuFault("a memory page is pending retirement", _RESET)
    retired = (pages.get("single_bit") or 0) + (pages.get("double_bit") or 0)
    if retired >= _MOST_RETIRED_PAGES:
        yield GpuFault(f"{retired} memory pages are retired (replacement threshold: {_MOST_RETIRED_PAGES})", _REPLACE)


def _fabric(fabric: Mapping[str, Any]) -> Iterator[GpuFault]:
    """Yield the NVLink fabric faults of a GPU."""
    state, status, summary = (fabric.get(key) for key in ("state", "status", "summary"))
    if state and state != "Completed":
        yield GpuFault(f"has not joined the NVLink fabric (state {state})", _FABRIC_REMEDY)
    elif status and status != "Success":
        yield GpuFault(f"could not join the NVLink fabric ({status})", _FABRIC_REMEDY)
    faults = [
        f"{key.replace('_', ' ')} {value}"
        for key, bad in _FABRIC_FAULTS.items()
        if (value := str(fabric.get(key) or "")).lower() in bad
    ]
    wrong = str(fabric.get("incorrect_configuration") or "None")
    faults += [f"incorrect configuration {wrong}"] if wrong.lower() not in {"none", "not supported"} else []
    if faults or str(summary or "Healthy").lower() not in {"healthy", "not supported"}:
        details = ", ".join(filter(None, [str(summary or ""), *faults]))
        yield GpuFault(f"NVLink fabric is degraded: {details}", _FABRIC_REMEDY)


def _action(gpu: Mapping[str, Any]) -> Iterator[GpuFault]:
    action = gpu.get("recovery_action")
    if action and action != "None":
        yield GpuFault(f"the driver requests the action {action}", _RESET)


def _throttling(gpu: Mapping[str, Any]) -> Iterator[GpuFault]:
    active = set(gpu.get("throttle_reasons") or ())
    specific = [name for name in ("hw_thermal_slowdown", "hw_power_brake_slowdown") if name in active]
    for name in specific or [name for name in ("hw_slowdown",) if name in active]:
        yield GpuFault(_SLOWDOWNS[name], "check fans, air flow and power supplies of the node")
