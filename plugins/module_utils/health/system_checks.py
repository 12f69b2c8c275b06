"""Check memory, clock, services and file systems of a node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .finding import ISOLATE, MONITOR, RESET, Answer, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "SERVICE_PROPERTIES",
    "Disk",
    "Process",
    "clock_answer",
    "disk_findings",
    "meminfo",
    "memory_findings",
    "service_answer",
    "stray_findings",
]

_MEMINFO = re.compile(r"^(\w+):\s+(\d+) kB", re.MULTILINE)
_OFFSET = re.compile(r"^System time\s*:\s*([0-9.]+) seconds (slow|fast)", re.MULTILINE)
_LEAP = re.compile(r"^Leap status\s*:\s*(.+?)\s*$", re.MULTILINE)
_FULL_SWAP = 0.1
_KIB_PER_MIB = 1024
_SHOWN = 4
_ENABLED = {"enabled", "enabled-runtime", "alias", "generated"}
# Starting or stopping is not a fault, unless systemd restarts the service repeatedly.
_RUNNING = {"active", "activating", "deactivating", "reloading", "refreshing", "maintenance"}
_LOOP_RESTARTS = 2
_STABLE_S = 120
SERVICE_PROPERTIES = (
    "--property=Id,LoadState,UnitFileState,ActiveState,SubState,Result,NRestarts,ActiveEnterTimestampMonotonic"
)


class Disk(NamedTuple):
    """A file system as reported by statvfs; `error` is set if it does not answer."""

    path: str
    read_only: bool = False
    free_mb: float = 0.0
    free_files: int | None = None
    error: str = ""
    mounted: bool = True


class Process(NamedTuple):
    """A user process outside any job."""

    number: int
    user: str
    command: str


def disk_findings(disk: Disk, least_mb: float, *, check: str = "disk") -> Iterator[Finding]:
    """Yield the problems with a file system.

    Args:
        disk: state of the file system.
        least_mb: required free space in MiB.
        check: name of the check.
    """
    path = disk.path
    if not disk.mounted:
        remedy = (
            f"systemctl status '*.mount' | grep {path}; mount {path}; check its server; journalctl -k -b | grep -i nfs"
        )
        yield Finding(check, RESET, f"{path} is not mounted", remedy)
    elif disk.error:
        remedy = (
            f"mount | grep {path}; check its server; journalctl -k -b | tail; umount -f -l {path} and mount it again"
        )
        yield Finding(check, RESET, f"{path} does not answer: {disk.error}", remedy)
    elif disk.read_only:
        remedy = (
            f"journalctl -k -b | grep -i -E 'remount|I/O error'; then mount -o remount,rw {path}, or repair the disk"
        )
        yield Finding(check, RESET, f"{path} is read-only", remedy)
    elif disk.free_mb < least_mb:
        problem = f"{path} is full: {disk.free_mb:.0f} MiB free (minimum {least_mb:.0f} MiB)"
        yield Finding(check, RESET, problem, f"du -x -d2 {path} | sort -n | tail", f"{disk.free_mb:.0f} MiB")
    elif disk.free_files == 0:
        remedy = f"du -x --inodes -d2 {path} | sort -n | tail"
        yield Finding(check, RESET, f"{path} is full: no free inodes", remedy, "0 inodes")


def meminfo(text: str) -> dict[str, float]:
    """Return the values of /proc/meminfo in MiB."""
    return {name: int(number) / _KIB_PER_MIB for name, number in _MEMINFO.findall(text)}


def memory_findings(figures: Mapping[str, float], declared_mb: float) -> Iterator[Finding]:
    """Yield a finding if memory is missing, and one if swap is nearly full.

    Args:
        figures: result of `meminfo`.
        declared_mb: memory that Slurm allocates to jobs, in MiB. A healthy node has more than that, so a lower total
            means a failed DIMM.
    """
    total = figures.get("MemTotal")
    if total is not None and total < declared_mb:
        problem = f"wrong memory size (found {total:.0f} MiB, expected {declared_mb:.0f} MiB)"
        remedy = "dmidecode -t memory shows which DIMM is missing; or correct memory_mb in the hardware profile"
        yield Finding("memory", ISOLATE, problem, remedy, f"{total:.0f} MiB")
    swap, free = figures.get("SwapTotal", 0.0), figures.get("SwapFree", 0.0)
    if swap and free < _FULL_SWAP * swap:
        problem = f"swap is nearly full: {free:.0f} of {swap:.0f} MiB are free"
        yield Finding("swap", MONITOR, problem, "ps -eo rss,user,cmd --sort=-rss | head", f"{free:.0f} MiB")


def clock_answer(text: str, most_s: float) -> Answer:
    """Return the problem with the clock, from the output of `chronyc -n tracking`.

    Munge rejects credentials that are five minutes old, so the limit is much lower.
    """
    offset, leap = _OFFSET.search(text), _LEAP.search(text)
    if not offset or not leap:
        return Answer(unknown=f"chronyc reported no offset: {' '.join(text.split())[:120]}")
    seconds = float(offset.group(1))
    remedy = "chronyc sources -v; systemctl restart chronyd; chronyc makestep"
    if seconds > most_s:
        problem = f"the clock is {seconds:.3g} s {offset.group(2)} (limit {most_s:g} s)"
        return Answer([Finding("clock", RESET, problem, remedy, f"{seconds:.3g} s")])
    if leap.group(1) == "Not synchronised":
        return Answer([Finding("clock", MONITOR, "the clock is not synchronised", remedy)])
    return Answer()


def service_answer(text: str, uptime_s: float | None = None) -> Answer:
    """Return the services that do not run or do not stay up.

    Args:
        text: output of `systemctl show` with SERVICE_PROPERTIES. Services that are neither enabled nor restarting are
            ignored.
        uptime_s: time.monotonic() of the host, which distinguishes recent restarts from old ones.
    """
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in text.strip().split("\n\n")]
    if not all({"Id", "LoadState", "ActiveState"} <= set(block) for block in blocks):
        return Answer(unknown=f"systemctl reported nothing: {' '.join(text.split())[:120]}")
    loaded = [block for block in blocks if block["LoadState"] == "loaded"]
    return Answer([found for block in loaded if (found := _service_finding(block, uptime_s))])


def _service_finding(block: Mapping[str, str], uptime_s: float | None) -> Finding | None:
    name, state = block["Id"].removesuffix(".service"), block["ActiveState"]
    restarts = int(number) if (number := block.get("NRestarts", "")).isdigit() else _LOOP_RESTARTS
    is_waiting = block.get("SubState", "").startswith("auto-restart")
    is_looping = "NRestarts" in block and restarts >= _LOOP_RESTARTS and not _is_stable(block, uptime_s)
    if is_waiting or is_looping:
        # systemd counts a restart only after the restart delay, so a service that failed once has no restarts yet.
        severity = RESET if restarts >= _LOOP_RESTARTS else MONITOR
        problem = f"{name} does not stay up: restarted {restarts} times, last result {block.get('Result') or 'unknown'}"
        remedy = f"journalctl -u {name} -n 50 shows why; then systemctl restart {name}"
        return Finding("services", severity, problem, remedy, f"{restarts} restarts")
    if block.get("UnitFileState") in _ENABLED and state not in _RUNNING:
        remedy = f"journalctl -u {name} -n 50; systemctl restart {name}"
        # slurmctld rarely retries an unresponsive node; a restarted slurmd registers at once.
        remedy += "; systemctl try-restart slurmd" * (name == "munge")
        return Finding("services", RESET, f"{name} does not run ({state})", remedy, state)
    return None


def _is_stable(block: Mapping[str, str], uptime_s: float | None) -> bool:
    """Return whether a service has run for a while, or is stopped, so that earlier restarts do not matter."""
    if block["ActiveState"] in {"active", "reloading", "refreshing"}:
        since = block.get("ActiveEnterTimestampMonotonic", "")
        return uptime_s is None or not since.isdigit() or uptime_s - int(since) / 1e6 >= _STABLE_S
    return block["ActiveState"] != "activating"


def stray_findings(processes: Sequence[Process]) -> Iterator[Finding]:
    """Yield one finding if users have processes outside jobs."""
    if processes:
        shown = ", ".join(f"{each.number} ({each.command} of {each.user})" for each in processes[:_SHOWN])
        more = f" and {len(processes) - _SHOWN} more" if len(processes) > _SHOWN else ""
        yield Finding(
            "stray_processes",
            MONITOR,
            f"user processes outside jobs: {shown}{more}",
            "loginctl list-sessions; kill them after informing their owner",
            str(len(processes)),
        )
