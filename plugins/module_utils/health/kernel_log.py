"""What the kernel's log says of hardware: Xid and SXid of NVIDIA's driver, memory errors, file systems. Pure.

Xid by class: the column "Resolution Bucket (Immediate Action)" of NVIDIA's catalogue
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of 2025-10). What it answers with RESTART_BM,
RESET_GPU or RESTART_VM is RESET, CHECK_MECHANICALS is ISOLATE, and what only ends an application is MONITOR, as is all
that the catalogue leaves open. 48 (double bit error) and 74 (NVLink) have workflows that end with a reset. The driver
itself says with Xid 154 what it needs, also for 144 to 150, whose lines may be harmless. SXid: those that NVSwitch
calls fatal (Fabric Manager User Guide, "SXid Errors").
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..hardware.xid import SXID, XID
from .finding import ISOLATE, MONITOR, RESET, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["kernel_findings", "xid_severity"]

_RESET_XIDS = frozenset(
    {
        *(46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158),
        *(167, 171, 172),
    }
)
_ISOLATE_XIDS = frozenset({54})
# Those of the application that ends, and those that need nobody.
_SILENT_XIDS = frozenset({14, 37, 38, 43, 44, 63, 66, 67, 93, 106, 107, 137, 141, 152, 153, 160, 161})
_RECOVERY_CHANGED = 154
_RECOVERY = re.compile(r"to 0x[0-9a-f]+ \(([^)]+)\)")
_UNCORRECTED = re.compile(r"EDAC (\S+): (\d+) UE\b(.*)|(\[Hardware Error\]: .*[Uu]ncorrect(?:ed|able).*)")
_REMOUNTED = re.compile(r"(?:EXT4-fs \(([^)]+)\): Remounting filesystem read-only|XFS \(([^)]+)\):.*[Ss]hutting down)")
_LONGEST = 120
_LOOK = "journalctl -k -b | grep -E 'NVRM|Xid'"


def xid_severity(number: int) -> str | None:
    """Return how severe an Xid is; None for one that needs nobody."""
    if number in _SILENT_XIDS:
        return None
    return RESET if number in _RESET_XIDS else ISOLATE if number in _ISOLATE_XIDS else MONITOR


def kernel_findings(lines: Iterable[str]) -> list[Finding]:
    """Return what lines of the kernel's log tell, each thing once; lines of no interest are passed over."""
    found: dict[tuple[str, str], Finding] = {}
    for line in lines:
        for each in _line(line):
            # The same Xid comes once per channel, with other words.
            found.setdefault((each.check, each.value), each)
    return list(found.values())


def _line(line: str) -> Iterator[Finding]:
    xid, sxid = XID.search(line), SXID.search(line)
    if xid:
        yield from _xid(xid.group(1), int(xid.group(2)), xid.group(3) or "")
    elif sxid and sxid.group(3) == "Fatal":
        where, number, words = sxid.group(1), sxid.group(2), sxid.group(4).strip(", ")
        remedy = "drain the node, reset its GPUs and NVSwitches or reboot; journalctl -k -b | grep SXid"
        problem = f"NVSwitch {where}: fatal SXid {number} ({words[:_LONGEST]})"
        yield Finding("xid", RESET, problem, remedy, f"SXid {number} at {where}")
    memory, mount = _UNCORRECTED.search(line), _REMOUNTED.search(line)
    if memory:
        words = f"{memory.group(1)}: {memory.group(2)} UE{memory.group(3)}" if memory.group(1) else memory.group(4)
        remedy = "drain the node, find the DIMM (ras-mc-ctl --summary, ipmitool sel list) and have it replaced"
        value = memory.group(1) or "machine check"
        yield Finding(
            "memory_errors", ISOLATE, f"uncorrectable memory error: {words.strip()[:_LONGEST]}", remedy, value
        )
    if mount:
        device = mount.group(1) or mount.group(2)
        remedy = f"journalctl -k -b | grep {device}; smartctl -a /dev/{device}; check the file system, then reboot"
        yield Finding("kernel", RESET, f"the kernel shut down the file system of {device}", remedy, device)


def _xid(where: str, number: int, words: str) -> Iterator[Finding]:
    if number == _RECOVERY_CHANGED:
        action = _RECOVERY.search(words)
        if action and action.group(1) != "None":
            remedy = "drain the node; nvidia-smi --gpu-reset, or reboot where the action says so"
            problem = f"GPU {where}: the driver asks for: {action.group(1)} (Xid 154)"
            yield Finding("xid", RESET, problem, remedy, f"Xid 154 at {where}")
        return
    severity = xid_severity(number)
    if severity:
        remedy = {
            RESET: f"drain the node, then nvidia-smi --gpu-reset or reboot; {_LOOK}",
            ISOLATE: f"check the power cables of the board, then have it replaced; {_LOOK}",
            MONITOR: f"mostly the program's own fault; {_LOOK}",
        }[severity]
        problem = f"GPU {where}: Xid {number}{f' ({words[:_LONGEST]})' if words else ''}"
        yield Finding("xid", severity, problem, remedy, f"Xid {number} at {where}")
