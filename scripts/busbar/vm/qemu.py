"""A machine as a QEMU process: command line, start, stop and monitor."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar.errors import UsageError
from busbar.sandbox.image import ADMIN
from busbar.vm.state import MACHINES

if TYPE_CHECKING:
    from busbar.vm.image import Image
    from busbar.vm.state import Group, Machine

__all__ = [
    "choose_accelerator",
    "command",
    "free_port",
    "monitor",
    "own_files",
    "pid_of",
    "set_cable",
    "start",
    "stop",
]

QEMU = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
KVM_PROBE_S = 5
STOP_TIMEOUT_S = 10
MEMORY_MIB = 1024
# More emulated cores slow the machine down, and so do the instructions of a larger CPU model.
CORES = 1
EMULATED_CPU = "qemu64"
MAC = "52:54:00:bb"


def choose_accelerator(image: Image) -> str:
    """Return ``kvm`` if a kernel starts with it, otherwise ``tcg``: on some hosts the device exists but hangs."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return "tcg"
    probe = [QEMU, "-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"]
    # Without a root file system the kernel panics, which ends QEMU and proves that the kernel ran.
    probe += ["-kernel", str(image.kernel), "-append", "panic=-1"]
    try:
        done = subprocess.run(probe, check=False, capture_output=True, timeout=KVM_PROBE_S)
    except subprocess.TimeoutExpired:
        return "tcg"
    return "kvm" if done.returncode == 0 else "tcg"


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def own_files(machine: Machine, authorized_key: str, host_key: tuple[str, str]) -> list[str]:
    """Return the files of an installer as lines of systemd-tmpfiles, which creates only missing files.

    `host_key` is the private and the public half.
    """
    uplink = "[Match]\nName=eth0\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n"
    shared = f"[Match]\nName=eth1\n[Network]\nAddress={machine.address}/24\nAddress={machine.outside_address}/24\n"
    files = [
        ("/etc/hostname", "0644", "root", f"{machine.name}\n"),
        ("/etc/hosts", "0644", "root", f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {machine.name}\n"),
        ("/etc/systemd/network/10-uplink.network", "0644", "root", uplink),
        ("/etc/systemd/network/20-shared.network", "0644", "root", shared),
        ("/etc/ssh/ssh_host_ed25519_key", "0600", "root", host_key[0]),
        ("/etc/ssh/ssh_host_ed25519_key.pub", "0644", "root", host_key[1]),
        (f"/home/{ADMIN}/.ssh/authorized_keys", "0600", ADMIN, f"{authorized_key}\n"),
    ]
    encoded = [(*head, base64.b64encode(text.encode()).decode()) for *head, text in files]
    return [
        f"d /home/{ADMIN}/.ssh 0700 {ADMIN} {ADMIN}",
        *(f"f~ {path} {mode} {owner} {owner} - {text}" for path, mode, owner, text in encoded),
    ]


def command(group: Group, machine: Machine, image: Image) -> list[str]:
    """Return QEMU's command line; paths are relative to the group's folder, because socket paths must be short."""
    cpu = "host" if group.accelerator == "kvm" else EMULATED_CPU
    accelerator = "kvm" if group.accelerator == "kvm" else "tcg,thread=multi"
    kernel = f"root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet mitigations=off systemd.hostname={machine.name}"
    peer = next(other.name for other in MACHINES if other.name != machine.name)
    mac = f"{MAC}:{machine.number:02x}"
    wire = f"dgram,id=shared,local.type=unix,local.path={machine.name}.wire"
    disks = {"root": f"file={machine.name}.root.qcow2,format=qcow2"}
    disks |= {serial: f"file={machine.name}.{serial}.disk,format=raw" for serial in machine.disks}
    parts = [QEMU, "-name", process_name(group, machine), "-accel", accelerator, "-cpu", cpu]
    parts += ["-smp", str(CORES), "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none"]
    parts += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", kernel]
    parts += ["-smbios", f"type=11,path={machine.name}.credential"]
    parts += ["-chardev", f"file,id=console,path={machine.name}.console,append=on", "-serial", "chardev:console"]
    parts += ["-qmp", f"unix:{machine.name}.monitor,server=on,wait=off"]
    for serial, source in disks.items():
        parts += ["-drive", f"if=none,id={serial},{source},cache=unsafe"]
        parts += ["-device", f"virtio-blk-pci,drive={serial},serial={serial}"]
    parts += ["-netdev", f"user,id=uplink,ipv6=off,hostfwd=tcp:127.0.0.1:{group.ports[machine.name]}-:22"]
    parts += ["-device", f"virtio-net-pci,netdev=uplink,romfile=,mac={mac}:00"]
    parts += ["-netdev", f"{wire},remote.type=unix,remote.path={peer}.wire"]
    parts += ["-device", f"virtio-net-pci,id=shared-port,netdev=shared,romfile=,mac={mac}:01"]
    return [*parts, "-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random"]


def process_name(group: Group, machine: Machine) -> str:
    """Return the name of the process, so that a stale PID file cannot refer to another process."""
    return f"busbar-{group.name}-{machine.name}"


def pid_of(group: Group, machine: Machine) -> int | None:
    """Return the process ID of a machine, or None if it does not run."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(group.file(machine.name, "pid").read_text())
        if process_name(group, machine) in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
            return pid
    return None


def start(group: Group, machine: Machine, image: Image) -> None:
    """Start a stopped machine.

    Raises:
        UsageError: QEMU exited immediately; contains its output.
    """
    if pid_of(group, machine):
        return
    for kind in ("wire", "monitor"):
        group.file(machine.name, kind).unlink(missing_ok=True)
    log = group.file(machine.name, "qemu.log")
    with log.open("w") as output:
        child = subprocess.Popen(
            command(group, machine, image),
            cwd=group.path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    group.file(machine.name, "pid").write_text(f"{child.pid}\n")
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=1)
        said = (log.read_text().strip() or "no output").splitlines()[-1]
        msg = f"machine {machine.name} did not start: {said}"
        raise UsageError(msg)


def stop(group: Group, machine: Machine) -> bool:
    """Kill a machine as in a power failure, and return whether it ran."""
    ran = pid_of(group, machine) is not None
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + STOP_TIMEOUT_S
        if pid := pid_of(group, machine):
            os.kill(pid, number)
        while pid_of(group, machine) and time.monotonic() < deadline:
            time.sleep(0.1)
    group.file(machine.name, "pid").unlink(missing_ok=True)
    return ran


def set_cable(group: Group, machine: Machine, *, plugged: bool) -> None:
    """Connect or disconnect a machine's link to the other machines; its link to this host stays up."""
    monitor(group, machine, "set_link", name="shared-port", up=plugged)


def monitor(group: Group, machine: Machine, execute: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON
    """Execute a command in QEMU's monitor and return its answer.

    Raises:
        UsageError: the machine does not run, or QEMU refused.
    """
    requests = [{"execute": "qmp_capabilities"}, {"execute": execute, "arguments": arguments}]
    folder = os.open(group.path, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(STOP_TIMEOUT_S)
            channel.connect(f"/proc/self/fd/{folder}/{machine.name}.monitor")
            stream = channel.makefile("rw", encoding="utf-8")
            answer: dict[str, Any] = {}
            for request in requests:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                answer = next(reply for line in stream if {"return", "error"} & set(reply := json.loads(line)))
    except OSError as exc:
        msg = f"machine {machine.name} does not answer: {exc}"
        raise UsageError(msg) from exc
    finally:
        os.close(folder)
    if "error" in answer:
        msg = f"machine {machine.name}: {execute}: {answer['error']['desc']}"
        raise UsageError(msg)
    return answer["return"]
