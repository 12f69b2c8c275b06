"""Find hardware errors in kernel log lines: Xid and SXid of NVIDIA's drivers, memory and file systems.

The severity of an Xid comes from the words of its message (Fatal, Nonfatal, Contained, Uncontained), else from the
column "Resolution Bucket (Immediate Action)" of NVIDIA's catalogue
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as of 2025-10): RESTART_BM, RESET_GPU and
RESTART_VM are RESET, CHECK_MECHANICALS is ISOLATE, all others are MONITOR. 48 (double bit error) and 74 (NVLink) have
workflows that end with a reset. 169, 173 and 175 are newer than the catalogue and are classified by their names in
src/common/sdk/nvidia/inc/nverror.h of github.com/NVIDIA/open-gpu-kernel-modules. Only SXids
that the NVSwitch driver reports as fatal are findings (Fabric Manager User Guide, "SXid Errors").
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..hardware.xid import APPLICATION, NVLINK5, RECOVERY_CHANGED, Xid, is_unparsed, read_sxid, read_xid
from .finding import ISOLATE, MONITOR, OFF, RESET, STATE, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["kernel_findings", "xid_severity"]

_RESET_XIDS = frozenset(
    {
        *(46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158),
        *(167, 169, 171, 172, 173, 175),
    }
)
_ISOLATE_XIDS = frozenset({54})
# Xids that need no action.
_SILENT_XIDS = frozenset({14, 37, 38, 43, 44, 63, 66, 67, 93, 106, 107, 137, 141, 152, 153, 160, 161})
_RECOVERY = re.compile(r"to 0x[0-9a-f]+ \(([^)]+)\)")
_UNCORRECTED = re.compile(r"EDAC (\S+): (\d+) UE\b(.*)|(\[Hardware Error\]: .*[Uu]ncorrect(?:ed|able).*)")
_REMOUNTED = re.compile(r"(?:EXT4-fs \(([^)]+)\): Remounting filesystem read-only|XFS \(([^)]+)\):.*[Ss]hutting down)")
_LONGEST = 120
_CONTAINED = 94
_LOOK = "journalctl -k -b | grep -E 'NVRM|Xid'"


def xid_severity(xid: Xid) -> str | None:
    """Return the severity of an Xid, None if it needs no action."""
    if xid.fatal or (xid.number in _RESET_XIDS and xid.fatal is None):
        return RESET
    if xid.number in _SILENT_XIDS:
        return None
    return ISOLATE if xid.number in _ISOLATE_XIDS else MONITOR


def kernel_findings(lines: Iterable[str]) -> list[Finding]:
    """Return the findings in lines of the kernel log; states that are resolved have severity OFF."""
    found: dict[tuple[str, str], Finding] = {}
    for line in lines:
        for each in _line(line):
            key = each.check, each.value
            # The driver prints an Xid once per channel, with different messages. For a state, the last line counts.
            if key not in found or each.is_state:
                found[key] = each
    return list(found.values())


def _line(line: str) -> Iterator[Finding]:
    xid, sxid = read_xid(line), read_sxid(line)
    if xid:
        yield from _xid(xid)
    elif sxid and sxid.fatal:
        remedy = "drain the node, reset its GPUs and NVSwitches or reboot; journalctl -k -b | grep SXid"
        problem = f"NVSwitch {sxid.address}: fatal SXid {sxid.number} ({sxid.message[:_LONGEST]})"
        yield Finding("xid", RESET, problem, remedy, f"SXid {sxid.number} at {sxid.address}")
    elif is_unparsed(line):
        start = line.find("NVRM") if "NVRM" in line else line.find("nvidia-nvswitch")
        words = line[start:].strip()[:_LONGEST]
        problem = f"Xid in a format that the health check cannot parse: {words}"
        yield Finding("xid", MONITOR, problem, f"look up the number in NVIDIA's Xid catalogue; {_LOOK}", words)
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


def _xid(xid: Xid) -> Iterator[Finding]:
    action = _RECOVERY.search(xid.message) if xid.number == RECOVERY_CHANGED else None
    severity = xid_severity(xid)
    if action:
        remedy = "drain the node; nvidia-smi --gpu-reset, or reboot if the action requires it"
        problem = f"GPU {xid.where}: the driver requests the action {action.group(1)} (Xid 154)"
        yield Finding("xid", OFF if action.group(1) == "None" else RESET, problem, remedy, f"{STATE}GPU {xid.where}")
    elif severity:
        problem = f"GPU {xid.where}: Xid {xid.number}{f' ({xid.message[:_LONGEST]})' if xid.message else ''}"
        fatal = "fatal " if xid.fatal else ""
        yield Finding(
            "xid", severity, problem, f"{_remedy(xid, severity)}; {_LOOK}", f"{fatal}Xid {xid.number} at {xid.where}"
        )


def _remedy(xid: Xid, severity: str) -> str:
    if severity == RESET:
        return "drain the node, then nvidia-smi --gpu-reset or reboot"
    if severity == ISOLATE:
        return "check the power cables of the board, then have it replaced"
    if xid.number in APPLICATION:
        return "usually a bug in the program"
    if xid.number == _CONTAINED:
        return "a memory error aborted the job: resubmit it, and run nvidia-smi --gpu-reset when the GPU is idle"
    if xid.number in NVLINK5:
        return "an NVLink error: run nvidia-smi nvlink -e; drain the node and reset its GPUs if jobs fail or it recurs"
    return "the hardware or the driver is at fault, not the program: have the board checked if it recurs"
