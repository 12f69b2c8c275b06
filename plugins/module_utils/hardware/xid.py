"""Reads what NVIDIA's driver and its NVSwitch driver write to the kernel's log of faults: Xid and SXid."""

from __future__ import annotations

import re

__all__ = ["SXID", "XID"]

# Address, number and words of a GPU's; address, number, "Fatal" or "Non-fatal" and words of a switch's.
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(?:, (.*))?")
SXID = re.compile(r"nvidia-nvswitch\d+: SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+), (Fatal|Non-fatal)\b(.*)")
