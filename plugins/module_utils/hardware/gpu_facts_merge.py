"""Combine the GPU data of `nvidia-smi`, /proc/driver/nvidia and the PCI bus."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .nvidia_smi import bare_gpu, parse_query
from .nvidia_smi_links import parse_nvlink
from .pci_devices import normal_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["join_sources", "link_generation", "proc_version"]

_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_SPEED = re.compile(r"^(\d+(?:\.\d+)?) GT/s")


def link_generation(speed: str) -> int | None:
    """Return the PCI Express generation of a link speed in /sys: '16.0 GT/s PCIe' gives 4."""
    match = _SPEED.match(speed)
    return _GENERATIONS.get(float(match.group(1))) if match else None


def proc_version(text: str) -> str | None:
    """Return the version of the loaded driver from /proc/driver/nvidia/version."""
    match = _VERSION.search(text)
    return match.group(1) if match else None


def proc_gpus(files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the GPUs in /proc/driver/nvidia/gpus.

    Args:
        files: PCI address (name of the directory) to the content of its file `information`.
    """
    gpus = []
    for index, (address, text) in enumerate(sorted(files.items())):
        pairs = (line.partition(":") for line in text.splitlines())
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        minor = fields.get("Device Minor", "")
        uuid = fields.get("GPU UUID") or ""
        known = {
            "pci_bus_id": fields.get("Bus Location") or address,
            "product_name": fields.get("Model") or None,
            "uuid": uuid if uuid.startswith("GPU-") and "?" not in uuid else None,
            "vbios_version": fields.get("Video BIOS") or None,
            "minor_number": int(minor) if minor.isdigit() else None,
        }
        gpus.append(bare_gpu(index, **known))
    return gpus


def with_nvlinks(gpus: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the GPUs with their links from `nvidia-smi nvlink -s`."""
    links = {link["index"]: link for link in parse_nvlink(text)["gpus"]}
    keys = ("links_active", "links_inactive", "speeds_gb_s", "inactive", "note")
    return [
        {**gpu, "nvlink": {key: links[gpu["index"]][key] for key in keys} if gpu["index"] in links else None}
        for gpu in gpus
    ]


def join_sources(smi: Mapping[str, Any], proc: Mapping[str, Any], pci: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the GPUs of a host from the most detailed source that is available.

    Args:
        smi: `state` (`ok`, `absent`, `failed`, `hung`, or `unusable` if it does not support `-q -x`), and the outputs
            `query` and `nvlink`.
        proc: `version` and `gpus`, the inputs of proc_version() and proc_gpus().
        pci: the host's GPUs on the PCI bus, each with `address`, `width`, `width_max`, `generation`, `generation_max`.

    Returns:
        The result of parse_query(), with `source` (`nvidia-smi`, `proc`, `pci`), `smi_state`, and `pci_gpus`, the
        addresses on the PCI bus.
    """
    found = parse_query(str(smi.get("query") or ""))
    source, state = "nvidia-smi", str(smi["state"])
    if state == "ok" and found["form"] is None:
        state = "failed"
    if state == "ok":
        found["gpus"] = with_nvlinks(found["gpus"], str(smi.get("nvlink") or ""))
    else:
        found |= {"form": None, "driver_version": proc_version(str(proc.get("version") or "")), "attached_gpus": None}
        source, found["gpus"] = "proc", proc_gpus(proc.get("gpus") or {})
        if not found["gpus"]:
            source, found["gpus"] = "pci", [_pci_gpu(index, device) for index, device in enumerate(pci)]
        found["gpu_count"] = len(found["gpus"])
    addresses = [normal_address(str(device["address"])) for device in pci]
    return {**found, "source": source, "smi_state": state, "pci_gpus": addresses}


def _pci_gpu(index: int, device: Mapping[str, Any]) -> dict[str, Any]:
    return bare_gpu(
        index,
        pci_bus_id=device["address"],
        pcie_width_current=device.get("width"),
        pcie_width_max=device.get("width_max"),
        pcie_gen_current=device.get("generation"),
        pcie_gen_max=device.get("generation_max"),
    )
