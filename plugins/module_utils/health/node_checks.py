"""Define the checks of a node, with their commands and time limits."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..access.user_processes import in_job
from ..common.node_info import parse_cpu_list
from ..hardware.dcgm_health import NOT_WATCHING, dcgm_incidents, dcgm_problems
from ..hardware.gpu_facts import PATHS, find_smi, listed, pci_devices, read, read_gpus, run_limited
from ..hardware.network_facts import network_interfaces, rdma_ports
from .finding import MONITOR, RESET, Answer, Finding
from .gpu_check import gpu_answer, nvlink_answer
from .kernel_log import kernel_findings
from .network_check import network_answer
from .system_checks import (
    SERVICE_PROPERTIES,
    Disk,
    Process,
    clock_answer,
    disk_findings,
    meminfo,
    memory_findings,
    service_answer,
    stray_findings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .finding import Node

__all__ = ["Check", "checks_of", "device_paths", "timed_out"]

COMMAND_S = 5
# A slow disk is not a fault, so disks get more time; Slurm kills the health check after 60 s.
DISK_S = 10
# DCGM's default group of all GPUs.
DCGM_GROUP = ("-g", "0")
DCGM_WATCHES = "a"
# slurmd's link to the configuration from slurmctld, and the path of a local configuration.
_CONFIGURATIONS = ("run/slurm/conf/slurm.conf", "etc/slurm/slurm.conf")
# Without the spool directory no job starts; without the log file slurmd continues.
_SLURMD_FILES = {
    severity: re.compile(rf"^[ \t]*{key}[ \t]*=[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)
    for severity, key in ((RESET, "SlurmdSpoolDir"), (MONITOR, "SlurmdLogFile"))
}
# Exit status of a shell for a missing program.
_NOT_THERE = 127
# UIDs of users: lower UIDs belong to system users, and distributions use those from 60000 for daemons.
_USERS = (range(1000, 60000), range(65536, 1 << 32))
# A younger session may still be about to join a job.
_STRAY_AGE_S = 600


class Check(NamedTuple):
    """A check: function, time limit in seconds, and whether a prolog may wait for it."""

    ask: Callable[[], Answer]
    limit_s: float
    quick: bool = False


def checks_of(node: Node) -> dict[str, Check]:
    """Return the checks that apply to a node, by name."""
    declared, timeout_s = node.declared, float(node.declared["timeout_s"])
    found = {
        "services": Check(partial(_services, node), COMMAND_S, quick=True),
        "memory": Check(partial(_memory, node), COMMAND_S, quick=True),
        "clock": Check(partial(_clock, node), COMMAND_S),
        "kernel": Check(partial(_kernel, node), 2 * COMMAND_S),
        "network": Check(partial(_network, node), COMMAND_S, quick=True),
        "stray_processes": Check(partial(_strays, node), COMMAND_S),
    }
    if declared["gpus"]:
        found["gpu"] = Check(partial(_gpus, node), timeout_s + 2)
        found["dcgm"] = Check(partial(_dcgm, node), 2 * COMMAND_S)
        found["gpu_devices"] = Check(partial(_devices, node), COMMAND_S, quick=True)
        if (declared.get("gpu") or {}).get("nvlink_gbs"):
            found["nvlink"] = Check(partial(_nvlinks, node), timeout_s + 2)
        if (declared.get("gpu") or {}).get("nvswitch"):
            found["fabric_manager"] = Check(partial(_fabric_manager, node), COMMAND_S, quick=True)
    for path in declared["paths"]:
        found[f"disk {path}"] = Check(partial(_disk, node, path), DISK_S, quick=True)
    found["slurmd_disks"] = Check(partial(_slurmd_disks, node), DISK_S, quick=True)
    for path in declared.get("mounts") or ():
        found[f"mount {path}"] = Check(partial(_disk, node, path, mount=True), DISK_S, quick=True)
    return found


def device_paths(folded: str) -> list[str]:
    """Return the paths in a gres.conf list: '/dev/nvidia[0-1]' gives ['/dev/nvidia0', '/dev/nvidia1'].

    Raises:
        ValueError: the brackets do not contain a list of numbers.
    """
    begin, bracket, rest = folded.partition("[")
    if not bracket or not rest.endswith("]"):
        return [part for part in folded.split(",") if part]
    return [f"{begin}{number}" for number in parse_cpu_list(rest[:-1])]


def _command(*words: str, limit_s: float = COMMAND_S - 1) -> tuple[int | None, str]:
    """Run a program from PATH or a standard directory, because slurmd sets no PATH; return exit status and output."""
    program = shutil.which(words[0], path=os.pathsep.join(filter(None, [os.environ.get("PATH"), *PATHS])))
    return run_limited([program, *words[1:]], limit_s) if program else (_NOT_THERE, f"{words[0]} is not installed")


def _gpus(node: Node) -> Answer:
    root, timeout_s = node.root, float(node.declared["timeout_s"])
    facts = read_gpus(root, pci_devices(root)["gpu"], find_smi(), timeout_s, links=False)
    return gpu_answer(node, facts)


def _devices(node: Node) -> Answer:
    paths = device_paths(node.declared["devices"])
    missing = [path for path in paths if not (node.root / path.lstrip("/")).exists()]
    remedy = "nvidia-modprobe -u -c=0; journalctl -k -b | grep NVRM"
    return Answer([Finding("gpu_count", RESET, f"missing: {', '.join(missing)}", remedy)] if missing else [])


def _nvlinks(node: Node) -> Answer:
    timeout_s = float(node.declared["timeout_s"]) / 2
    outputs = {option: _command("nvidia-smi", "nvlink", option, limit_s=timeout_s) for option in ("-s", "-e")}
    # GPUs and drivers without NVLink or without error counters fail with a message.
    shown = {option: text if status == 0 else "" for option, (status, text) in outputs.items()}
    return nvlink_answer(node, shown["-s"], shown["-e"])


def _fabric_manager(node: Node) -> Answer:
    running = any(read(path) == "nv-fabricmanager" for path in (node.root / "proc").glob("[0-9]*/comm"))
    remedy = "systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager -n 50"
    problem = "nv-fabricmanager is not running (required by NVSwitches)"
    return Answer([] if running else [Finding("fabric_manager", RESET, problem, remedy)])


def _dcgm(node: Node) -> Answer:
    """Return the faults that DCGM's health watches found; enable the watches if necessary.

    The result is empty if DCGM is missing, because the check `services` covers the daemon.
    """
    dcgm = node.declared.get("dcgm") or {}
    if dcgm.get("level", "never") == "never":
        return Answer()
    command = ("dcgmi", "health", "--host", str(dcgm["host"]), *DCGM_GROUP)
    status, text = _command(*command, "-c", "-j")
    if status == _NOT_THERE:
        return Answer()
    if NOT_WATCHING in text:
        status, text = _command(*command, "-s", DCGM_WATCHES)
        if status == 0:
            return Answer()
    if status != 0:
        return Answer(unknown=f"DCGM {'does not answer' if status is None else f'cannot be queried: {_short(text)}'}")
    try:
        problems = dcgm_problems(dcgm_incidents(text), str(dcgm["level"]))
    except ValueError as exc:
        return Answer(unknown=f"cannot parse the output of DCGM: {exc}")
    remedy = f"dcgmi health --host {dcgm['host']} -g 0 -c; dcgmi diag -r 2 once the node is empty"
    # DCGM's watches clear an error once traffic stops, as on a drained node, so keep it as an event.
    return Answer(events=[Finding("dcgm", RESET, problem, remedy, problem) for problem in problems])


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _kernel(node: Node) -> Answer:
    """Return events in the kernel log since the boot or the last check."""
    since = ("--since", f"@{int(node.log_since)}") if node.log_since else ()
    status, text = _command(
        "journalctl", "-k", "-b", "-q", "-o", "cat", "--no-pager", *since, limit_s=2 * COMMAND_S - 1
    )
    if status != 0:
        return Answer(unknown=f"cannot read the kernel log: {_short(text)}")
    return Answer(events=kernel_findings(text.splitlines()))


def _network(node: Node) -> Answer:
    root = node.root
    facts = {
        "rdma_ports": rdma_ports(root),
        "network_interfaces": network_interfaces(root),
        "pci_nics": [device["address"] for device in pci_devices(root)["nic"]],
    }
    return network_answer(node, facts, _link_downs(root, facts), _port_errors(root, facts))


def _port_errors(root: Path, facts: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of receive and symbol errors of each InfiniBand port."""
    found = {}
    for port in facts["rdma_ports"]:
        if port["link_layer"] == "InfiniBand":
            counters = root / f"sys/class/infiniband/{port['device']}/ports/{port['port']}/counters"
            texts = [read(counters / name) for name in ("symbol_error", "port_rcv_errors")]
            if all(text.isdigit() for text in texts):
                found[f"{port['device']}/{port['port']}"] = sum(map(int, texts))
    return found


def _link_downs(root: Path, facts: Mapping[str, Any]) -> dict[str, int]:
    """Return how often each link went down, by port for InfiniBand and by interface for other networks."""
    places = {
        f"{port['device']}/{port['port']}": root
        / f"sys/class/infiniband/{port['device']}/ports/{port['port']}/counters/link_downed"
        for port in facts["rdma_ports"]
        if port["link_layer"] == "InfiniBand"
    }
    for each in facts["network_interfaces"]:
        places[each["name"]] = root / f"sys/class/net/{each['name']}/carrier_down_count"
    texts = {name: read(path) for name, path in places.items()}
    return {name: int(text) for name, text in texts.items() if text.isdigit()}


def _memory(node: Node) -> Answer:
    figures = meminfo(read(node.root / "proc/meminfo"))
    return Answer([*memory_findings(figures, float(node.declared.get("memory_mb") or 0))])


def _clock(node: Node) -> Answer:
    status, text = _command("chronyc", "-n", "tracking")
    if status == _NOT_THERE:
        return Answer()
    return clock_answer(text if status == 0 else f"{status}: {text}", float(node.declared["limits"]["clock_offset_s"]))


def _services(node: Node) -> Answer:
    wanted = list(node.declared.get("services") or ())
    if not wanted:
        return Answer()
    return service_answer(_command("systemctl", "show", SERVICE_PROPERTIES, *wanted)[1], time.monotonic())


def _disk(node: Node, path: str, *, mount: bool = False) -> Answer:
    check = "mounts" if mount else "disk"
    try:
        disk = _disk_of(path, is_mount=mount)
    except OSError as exc:
        disk = Disk(path, error=exc.strerror or str(exc))
    # Do not check the free space of network file systems.
    return Answer([*disk_findings(disk, 0 if mount else float(node.declared["free_mb"]), check=check)])


def _slurmd_disks(node: Node) -> Answer:
    """Return the problems with the file systems of slurmd's spool and log, if they are separate."""
    conf = next(filter(None, (read(node.root / path) for path in _CONFIGURATIONS)), "")
    findings: list[Finding] = []
    for severity, setting in _SLURMD_FILES.items():
        if found := setting.search(conf):
            path = re.sub("%[hn]", str(node.declared["node"]), found.group(1))
            folder = path if severity == RESET else str(Path(path).parent)
            findings += [each._replace(severity=severity) for each in _own_disk(node, folder).findings]
    return Answer(findings)


def _own_disk(node: Node, path: str) -> Answer:
    if not os.path.lexists(path):
        return Answer()  # slurmd creates it
    try:
        is_reported = Path(path).stat().st_dev in {Path(each).stat().st_dev for each in node.declared["paths"]}
    except OSError:
        is_reported = False
    return Answer() if is_reported else _disk(node, path)


def _disk_of(path: str, *, is_mount: bool) -> Disk:
    if is_mount and not _mounted(path):
        return Disk(path, mounted=False)
    found = os.statvfs(path)
    return Disk(
        path,
        read_only=bool(found.f_flag & os.ST_RDONLY) or _refuses_files(path),
        free_mb=found.f_bavail * found.f_frsize / (1 << 20),
        # File systems that allocate inodes dynamically report 0.
        free_files=found.f_favail if found.f_files else None,
    )


def _mounted(path: str) -> bool:
    """Return whether a path is a mount point, without contacting a server that may be unreachable."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.split()[4].replace("\\040", " ") == path.rstrip("/") for line in lines)


def _refuses_files(path: str) -> bool:
    """Return whether creating a file fails with EROFS; statvfs does not report every read-only file system."""
    try:
        number = os.open(path, os.O_TMPFILE | os.O_WRONLY, stat.S_IRUSR)
    except PermissionError:
        return False
    except OSError as exc:
        return exc.strerror == "Read-only file system"
    os.close(number)
    return False


def _strays(node: Node) -> Answer:
    ticks = os.sysconf("SC_CLK_TCK")
    up_s = float(read(node.root / "proc/uptime").split()[0])
    found = []
    for folder in listed(node.root / "proc"):
        if not folder.name.isdigit():
            continue
        try:
            owner = folder.stat().st_uid
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            groups = (folder / "cgroup").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # the process has exited
        # State and start time in ticks since boot: proc(5), fields 3 and 22.
        young = up_s - int(fields[19]) / ticks < _STRAY_AGE_S
        if any(owner in each for each in _USERS) and fields[0] not in "ZX" and not young and not in_job(groups):
            found.append(Process(int(folder.name), _user(owner), read(folder / "comm")))
    return Answer([*stray_findings(found)])


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def timed_out(name: str, limit_s: float) -> Answer:
    """Return the result of a check that timed out: a hanging file system is a fault, other checks are unknown."""
    kind, _, path = name.partition(" ")
    if kind in {"disk", "mount"}:
        disk = Disk(path, error=f"no answer within {limit_s:g} s")
        return Answer([*disk_findings(disk, 0, check="mounts" if kind == "mount" else "disk")])
    if name == "gpu":
        remedy = "look for Xid in dmesg, then reboot the node"
        problem = f"nvidia-smi: fails: it did not answer in {limit_s:g} s"
        return Answer([Finding("gpu_count", RESET, problem, remedy)])
    return Answer(unknown=f"no answer within {limit_s:g} s")
