"""Choose how RDMA accesses GPU memory on a host, and report PCI settings that slow it down.

Sources:

- dma-buf for RDMA exists since Linux 5.12 (drivers/infiniband/core/umem_dmabuf.c); the driver exports it from its open
  modules, which exist since branch 515 (NVIDIA's GPU Operator guide, "GPUDirect RDMA": open modules, kernel 5.12).
- nvidia-peermem is part of the driver since branch 470 (CUDA 11.4, "GPUDirect RDMA", 2.3). It needs an ib_core with
  ib_register_peer_memory_client, which DOCA-OFED and Ubuntu's kernels have, but upstream Linux does not.
- ACS: PCI Express Base Specification 5.0, 7.7.8: capability 000Dh, control register at 06h; bit 2 redirects peer
  requests, bit 3 peer completions, to the root complex.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .driver_choice import FIRST_OPEN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MODES", "acs_control", "acs_redirects", "bus_notes", "choose_mode", "loaded_driver", "needed_bridges"]

MODES = ("auto", "dmabuf", "nvidia_peermem", "none")
FIRST_PEERMEM_BRANCH = 470
FIRST_DMABUF_KERNEL = (5, 12)
_LOADED = re.compile(r"NVRM version:.*?Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_EXTENDED = 0x100
_ACS = 0x000D
_ACS_CONTROL = 6
_REDIRECTS = 0b1100
_MOST_CAPABILITIES = 200


def loaded_driver(text: str) -> tuple[str, bool] | None:
    """Return the version of the loaded driver and whether its modules are the open ones.

    Args:
        text: /proc/driver/nvidia/version.
    """
    match = _LOADED.search(text)
    return (match.group(1), "Open Kernel Module" in text) if match else None


def acs_redirects(config: bytes) -> bool | None:
    """Return whether a PCI device redirects peer-to-peer traffic to the root complex.

    Args:
        config: its configuration space; only root can read more than the first 64 bytes.

    Returns:
        None if the extended part cannot be read.
    """
    if len(config) < _EXTENDED + 4:
        return None
    found = acs_control(config)
    return bool(found and found[1] & _REDIRECTS)


def acs_control(config: bytes) -> tuple[int, int] | None:
    """Return offset and value of the ACS control register of a PCI device; None without ACS.

    Args:
        config: its configuration space; only root can read more than the first 64 bytes.
    """
    place = _EXTENDED
    for _ in range(_MOST_CAPABILITIES):
        head = int.from_bytes(config[place : place + 4], "little")
        if head & 0xFFFF == _ACS:
            control = place + _ACS_CONTROL
            return control, int.from_bytes(config[control : control + 2], "little")
        place = head >> 20
        if place < _EXTENDED or place + 4 > len(config):
            break
    return None


def needed_bridges(paths: Mapping[str, str]) -> list[str]:
    """Return the bridges between devices and their root ports, including the root ports.

    Args:
        paths: PCI address of each GPU and NIC to its path in /sys/devices, which contains the bridges above it.
    """
    above = (word for path in paths.values() for word in path.split("/")[:-1])
    return sorted({word for word in above if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", word)})


def _kernel(release: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match.group(1)), int(match.group(2))) if match else None


def choose_mode(wanted: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return how RDMA accesses GPU memory.

    Args:
        wanted: one of MODES.
        facts: `rdma` (whether the hardware profile has RDMA NICs), `kernel` (release), `driver` (version, empty if
            unknown), `open` (whether its modules are the open ones; None if unknown), `peer_memory` (whether ib_core
            supports nvidia_peermem; None if unknown), `peermem_there` (whether the kernel has the module; None if
            unknown).

    Returns:
        `mode`, empty if not known yet; `reason`; and `problem` and `remedy`, empty without a problem.
    """
    if wanted not in MODES:
        return _refuse(f"{wanted!r} is unknown", f"write one of {', '.join(MODES)}")
    if wanted == "none":
        return _answer("none", "gpudirect_mode is none")
    if wanted == "auto" and not facts["rdma"]:
        return _answer("none", "the hardware profile has no RDMA NIC")
    branch = int(facts["driver"].partition(".")[0]) if facts["driver"] else None
    buffers, why_not = _buffers(branch, facts)
    peers, why_no_peers = _peers(branch, facts)
    if wanted == "auto":
        return _automatic(buffers, peers, (why_not, why_no_peers), facts)
    works, why = (buffers, why_not) if wanted == "dmabuf" else (peers, why_no_peers)
    if works is False:
        return _refuse(f"{wanted} is not possible: {why}", "set gpudirect_mode: auto, which selects an available one")
    return _answer(wanted, f"gpudirect_mode is {wanted}" + (f"; unknown: {why}" if works is None else ""))


def _automatic(
    buffers: bool | None,  # noqa: FBT001 - a result, not an option
    peers: bool | None,  # noqa: FBT001
    reasons: tuple[str, str],
    facts: Mapping[str, Any],
) -> dict[str, str]:
    why_not, why_no_peers = reasons
    if buffers:
        return _answer("dmabuf", f"driver {facts['driver']} has open modules, kernel {facts['kernel']} has dma-buf")
    if buffers is None:
        return _answer("", why_not)
    if peers is False:
        return _answer("none", f"no dma-buf: {why_not}; no nvidia_peermem: {why_no_peers}")
    unseen = f"; unknown: {why_no_peers}" if peers is None else ""
    return _answer("nvidia_peermem", f"no dma-buf: {why_not}{unseen}")


def _answer(mode: str, reason: str) -> dict[str, str]:
    return {"mode": mode, "reason": reason, "problem": "", "remedy": ""}


def _refuse(problem: str, remedy: str) -> dict[str, str]:
    return {"mode": "", "reason": "", "problem": problem, "remedy": remedy}


def _buffers(branch: int | None, facts: Mapping[str, Any]) -> tuple[bool | None, str]:
    """Return whether dma-buf works (None if unknown), and why not."""
    kernel = _kernel(facts["kernel"])
    if kernel and kernel < FIRST_DMABUF_KERNEL:
        return False, f"kernel {facts['kernel']} is older than {FIRST_DMABUF_KERNEL[0]}.{FIRST_DMABUF_KERNEL[1]}"
    if branch is not None and branch < FIRST_OPEN_BRANCH:
        return False, f"driver {facts['driver']} has no open modules (first branch: {FIRST_OPEN_BRANCH})"
    if facts["open"] is False:
        return False, "the driver's modules are proprietary"
    if branch is None or facts["open"] is None or kernel is None:
        return None, "no driver is loaded or installed"
    return True, ""


def _peers(branch: int | None, facts: Mapping[str, Any]) -> tuple[bool | None, str]:
    """Return whether nvidia_peermem works (None if unknown), and why not."""
    if branch is not None and branch < FIRST_PEERMEM_BRANCH:
        return False, f"driver {facts['driver']} has no such module (first branch: {FIRST_PEERMEM_BRANCH})"
    if branch is None:
        return None, "no driver is loaded or installed"
    if facts["peermem_there"] is False:
        return False, f"driver {facts['driver']} is installed without the module"
    if facts["peer_memory"] is False:
        return False, "ib_core does not support peer memory; use DOCA-OFED (rdma_source: doca) or Ubuntu's kernel"
    if facts["peer_memory"] is None:
        return None, "whether ib_core supports peer memory (it is not loaded)"
    return True, ""


def bus_notes(facts: Mapping[str, Any]) -> list[str]:
    """Return the PCI and IOMMU settings that slow down copies between GPUs and NICs, and unknown settings.

    Args:
        facts: `acs` (for each bridge whether it redirects, None if unknown), `iommu` (domain types of the groups, empty
            without an IOMMU), `devices` (addresses of GPUs and NICs).
    """
    if not facts["devices"]:
        return ["no GPU and no network card on the PCI bus: ACS and IOMMU were not checked"]
    notes = []
    redirecting = sorted(bridge for bridge, state in facts["acs"].items() if state)
    unseen = sorted(bridge for bridge, state in facts["acs"].items() if state is None)
    if redirecting:
        notes.append(
            f"ACS routes copies between GPUs and NICs through the root complex at {', '.join(redirecting)}: disable it "
            "in the BIOS, or set gpudirect_acs: disabled if no virtual machine needs ACS"
        )
    if unseen:
        notes.append(f"the state of ACS is unknown at {', '.join(unseen)}")
    translated = sorted({kind for kind in facts["iommu"] if kind.startswith("DMA")})
    if translated:
        notes.append(
            f"the IOMMU translates DMA addresses (domain type {', '.join(translated)}): boot with iommu=pt, or disable "
            "it in the BIOS if no virtual machine needs it"
        )
    return notes
