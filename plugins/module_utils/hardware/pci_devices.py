"""Reads `lspci`: which NVIDIA GPUs, NVSwitches and Mellanox NICs are on the bus. Never raises."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["NVIDIA", "classify", "normal_address", "parse_lspci"]

NVIDIA = "10de"
_MELLANOX = "15b3"
_LINE = re.compile(
    r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^:\[]+?)(?: \[([0-9a-f]{4})\])?: (.*)$", re.IGNORECASE
)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_CLASSES = {
    "3d controller": "0302",
    "vga compatible controller": "0300",
    "bridge": "0680",
    "infiniband controller": "0207",
}
_CLASSES |= {"ethernet controller": "0200", "network controller": "0280", "dma controller": "0801"}
_GPU_CLASSES = ("0300", "0302")


def normal_address(address: str) -> str:
    """Return a PCI address in one form: '00000000:3B:00.0' and '3b:00.0' give '0000:3b:00.0'."""
    domain, _, rest = address.strip().lower().rpartition(":")
    domain, _, bus = domain.rpartition(":")
    number = int(domain, 16) if re.fullmatch(r"[0-9a-f]{1,8}", domain) else 0
    return f"{number:04x}:{bus}:{rest}" if bus else address.strip().lower()


def classify(vendor: str, kind: str) -> str:
    """Return `gpu`, `nvswitch`, `nic` or `other` from vendor and class, four hexadecimal digits each."""
    if vendor == NVIDIA and kind in _GPU_CLASSES:
        return "gpu"
    if vendor == NVIDIA and kind == "0680":
        return "nvswitch"
    return "nic" if vendor == _MELLANOX else "other"


def parse_lspci(text: str) -> list[dict[str, Any]]:
    """Return the devices of `lspci`, with or without `-nn`, `-D`, `-vvv`.

    Returns:
        each with `address` (as it stands), `class` (four digits, None when neither given nor known), `vendor`,
        `device` (None without `-nn`), `name`, and `kind` as classify() names it. A firmware agent such as a BlueField's
        management interface counts as a NIC, as every other Mellanox device does.
    """
    return [_device(match) for match in map(_LINE.match, text.splitlines()) if match]


def _device(match: re.Match[str]) -> dict[str, Any]:
    address, words, number, name = match.groups()
    kind = (number or _CLASSES.get(words.strip().lower()) or "").lower() or None
    ids = _IDS.findall(name)
    vendor, device = (ids[-1][0].lower(), ids[-1][1].lower()) if ids else (_vendor(name), None)
    return {
        "address": address,
        "class": kind,
        "vendor": vendor,
        "device": device,
        "name": name,
        "kind": classify(vendor or "", kind or ""),
    }


def _vendor(name: str) -> str | None:
    """Return the vendor's number from its name, of those that matter here."""
    if name.startswith("NVIDIA"):
        return NVIDIA
    return _MELLANOX if name.startswith("Mellanox") else None
