"""Normalize PCI addresses, and classify PCI devices as GPU, NVSwitch or NIC."""

from __future__ import annotations

import re

__all__ = ["classify", "normal_address"]

_NVIDIA = "10de"
_MELLANOX = "15b3"
_GPU_CLASSES = ("0300", "0302")


def normal_address(address: str) -> str:
    """Return a normalized PCI address: '00000000:3B:00.0' and '3b:00.0' give '0000:3b:00.0'."""
    domain, _, rest = address.strip().lower().rpartition(":")
    domain, _, bus = domain.rpartition(":")
    number = int(domain, 16) if re.fullmatch(r"[0-9a-f]{1,8}", domain) else 0
    return f"{number:04x}:{bus}:{rest}" if bus else address.strip().lower()


def classify(vendor: str, kind: str) -> str:
    """Return `gpu`, `nvswitch`, `nic` or `other` from vendor and class, four hexadecimal digits each."""
    if vendor == _NVIDIA and kind in _GPU_CLASSES:
        return "gpu"
    if vendor == _NVIDIA and kind == "0680":
        return "nvswitch"
    return "nic" if vendor == _MELLANOX else "other"
