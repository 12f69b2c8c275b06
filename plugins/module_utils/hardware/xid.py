"""Parse Xid and SXid lines: errors that NVIDIA's GPU and NVSwitch drivers write to the kernel log.

Formats: krcReportXid in src/nvidia/src/kernel/gpu/rc/kernel_rc.c and NVSWITCH_PRINT_SXID in
src/common/nvswitch/kernel/inc/common_nvswitch.h of github.com/NVIDIA/open-gpu-kernel-modules. Old drivers omit "PCI:".
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["APPLICATION", "NVLINK5", "RECOVERY_CHANGED", "SXid", "Xid", "is_unparsed", "read_sxid", "read_xid"]

# This Xid reports a state, the recovery action that the driver requires; all others report an event.
RECOVERY_CHANGED = 154
# Xids caused by a program; the GPU stays healthy.
APPLICATION = frozenset(
    {
        *(8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 45, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86),
        *(88, 89, *range(96, 106), *range(126, 136), 139, 142, 174),
    }
)
NVLINK5 = range(144, 151)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)([^)]*)\): (\d{1,9})\b(?:, ?(.*))?")
_SXID = re.compile(r"nvidia-nvswitch\d+: SXid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d{1,9})\b(?:, (Fatal\b)?,? ?(.*))?")
_ANY = re.compile(r"NVRM: Xid\b|nvidia-nvswitch\d+: SXid\b")
# src/nvidia/src/kernel/gpu/arch/ampere/kern_gpu_error_cont_ga100.c. The last match counts, because a process
# name may precede it.
_CONTAINMENT = re.compile(r".*\b(un)?contained: .*\bRST: (yes|no), D-RST: (yes|no)", re.IGNORECASE)
_WORD = re.compile(r".*(?<![\w-])(fatal|uncontained|non-?fatal|contained)\b", re.IGNORECASE)


class Xid(NamedTuple):
    """An Xid line: PCI address, MIG instance (empty without MIG), number, message, and whether it is marked fatal.

    ``fatal`` is None if the message does not contain the severity.
    """

    address: str
    instance: str
    number: int
    message: str
    fatal: bool | None

    @property
    def where(self) -> str:
        """The PCI address and, with MIG, the instance."""
        return f"{self.address} {self.instance}".rstrip()


class SXid(NamedTuple):
    """An SXid line: PCI address of the switch, number, message, and whether it is marked fatal."""

    address: str
    number: int
    message: str
    fatal: bool


def read_xid(line: str) -> Xid | None:
    """Return the Xid in a line of the kernel log, None if the line has none or its format is unknown."""
    match = _XID.search(line)
    if match is None:
        return None
    number, message = int(match[3]), (match[4] or "").strip()
    return Xid(match[1], match[2].strip(" ,"), number, message, _fatal(number, message))


def read_sxid(line: str) -> SXid | None:
    """Return the SXid in a line of the kernel log, None if the line has none or its format is unknown."""
    match = _SXID.search(line)
    if match is None:
        return None
    return SXid(match[1], int(match[2]), (match[4] or "").strip(), bool(match[3]))


def is_unparsed(line: str) -> bool:
    """Return whether a line reports an Xid or SXid in a format that cannot be parsed."""
    return bool(_ANY.search(line)) and read_xid(line) is None and read_sxid(line) is None


def _fatal(number: int, message: str) -> bool | None:
    """Return whether the message marks the error as fatal; None if it does not contain the severity.

    A message can contain the name of a user's process, which must not change the severity.
    """
    if number in APPLICATION:
        return None
    contained = _CONTAINMENT.match(message)
    if contained is not None:
        return bool(contained[1]) or "yes" in {contained[2].lower(), contained[3].lower()}
    word = _WORD.match(message) if number in NVLINK5 or not re.search(r"\bpid=\d", message) else None
    return None if word is None else word[1].lower() in {"fatal", "uncontained"}
