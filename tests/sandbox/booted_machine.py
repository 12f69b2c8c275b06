"""A sandbox compute node that is a QEMU machine with firmware, iPXE, kernel and initramfs, on the sandbox's network.

Its only link is connected to the bridge of the sandbox, where the image server answers DHCP. It also has a shared tree
(9p), a small disk for its identity, and simulated GPUs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from booted_image import SERVER, Booted
from busbar.sandbox import cluster
from busbar.sandbox.image import ADMIN
from busbar.sandbox.recording import gpu_recording
from busbar.sandbox.state import SHARED
from vm_pair import qemu
from vm_pair.image import Image

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BootedMachine"]

# Half of it is the root file system, of which the preflight requires 2 GiB free.
MEMORY_MIB = 5120
FIRMWARE = Path("/usr/share/OVMF")
STATE_DISK = 64 << 20
STOP_TIMEOUT_S = 30
# Emulation takes twenty times as long.
SSH_TIMEOUT_S = 120
SHARE = f"systemd.mount-extra=shared:{SHARED}:9p:trans=virtio,version=9p2000.L,msize=131072"


class BootedMachine(Booted):
    """An additional node of the sandbox: a machine with its own firmware and kernel."""

    mac = "52:54:00:bb:98:02"
    boot_timeout_s = 900

    @property
    def server_options(self) -> dict[str, Any]:
        """Return additional options of the server's role."""
        options = {"pxe_server_gateway": f"{self.former.subnet}.1", "pxe_server_dns": [self.dns]}
        return options | {"pxe_server_kernel_options": f"console=ttyS0 {SHARE}"}

    @property
    def dns(self) -> str:
        """Return the DNS server of the sandbox."""
        named = self.sandbox.exec(SERVER, "cat /etc/resolv.conf").stdout.split()
        return named[named.index("nameserver") + 1]

    @property
    def node_options(self) -> dict[str, Any]:
        """Return the differences from a container, which shares kernel, clock and swap with its host."""
        return {"ansible_ssh_timeout": SSH_TIMEOUT_S, "hosts_sysctl_apply": True, "node_health_severities": {}}

    @property
    def cable(self) -> str:
        """Return the interface of this host for the machine's link."""
        return f"bb{hashlib.sha256(self.sandbox.name.encode()).hexdigest()[:10]}"

    @property
    def process_name(self) -> str:
        """Return its process name."""
        return f"busbar-{self.sandbox.name}-{self.node}"

    def at(self, kind: str) -> Path:
        """Return the path of a file of the machine."""
        return self.folder.parent / f"machine.{kind}"

    def boot(self) -> None:
        """Switch the machine on, and record when its SSH answered."""
        self.plug()
        self.make_disks()
        self.at("console").unlink(missing_ok=True)
        with self.at("log").open("w") as log:
            child = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.at("pid").write_text(f"{child.pid}\n")
        began = time.monotonic()
        self.wait_for_ssh(lambda: child.poll() is None)
        self.booted_s = self.up - began
        self.insert_gpus()

    def plug(self) -> None:
        """Connect the machine to the bridge of the sandbox."""
        network = f"busbar-{self.sandbox.name}"
        shown = ["podman", "network", "inspect", network, "--format", "{{.NetworkInterface}}"]
        bridge = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(["ip", "link", "delete", self.cable], check=False, capture_output=True)
        subprocess.run(["ip", "tuntap", "add", "mode", "tap", "name", self.cable], check=True)
        subprocess.run(["ip", "link", "set", self.cable, "master", bridge, "up"], check=True)

    def make_disks(self) -> None:
        """Create the firmware's settings and the partition that stores the machine's identity."""
        if not self.at("settings").exists():
            shutil.copyfile(FIRMWARE / "OVMF_VARS.fd", self.at("settings"))
        if not self.at("state").exists():
            with self.at("state").open("wb") as disk:
                disk.truncate(STATE_DISK)
            subprocess.run(["mke2fs", "-q", "-t", "ext4", "-L", "busbar-state", self.at("state")], check=True)

    def command(self) -> list[str]:
        """Return QEMU's command line."""
        accelerator = qemu.choose_accelerator(Image(self.folder))
        processor = ("kvm", "host") if accelerator == "kvm" else ("tcg,thread=multi", "max")
        cores = min(4, os.cpu_count() or 1)
        parts = [qemu.QEMU, "-name", self.process_name, "-accel", processor[0], "-cpu", processor[1]]
        parts += ["-smp", f"{cores},sockets=1,cores={cores},threads=1", "-m", str(MEMORY_MIB)]
        parts += ["-nodefaults", "-no-user-config", "-display", "none", "-rtc", "base=utc"]
        for place, access in ((FIRMWARE / "OVMF_CODE.fd", "on"), (self.at("settings"), "off")):
            parts += ["-drive", f"if=pflash,format=raw,readonly={access},file={place}"]
        # Without an option ROM, so that the firmware's PXE boots instead of the ROM's iPXE.
        parts += ["-netdev", f"tap,id=wire,ifname={self.cable},script=no,downscript=no"]
        parts += ["-device", f"virtio-net-pci,netdev=wire,mac={self.mac},romfile=,bootindex=1"]
        parts += ["-drive", f"if=none,id=state,file={self.at('state')},format=raw"]
        parts += ["-device", "virtio-blk-pci,drive=state"]
        parts += ["-fsdev", f"local,id=shared,path={self.former.shared},security_model=passthrough"]
        parts += ["-device", "virtio-9p-pci,fsdev=shared,mount_tag=shared"]
        parts += ["-chardev", f"file,id=console,path={self.at('console')},append=on", "-serial", "chardev:console"]
        return [*parts, "-object", "rng-random,id=random,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=random"]

    def insert_gpus(self) -> None:
        """Install the GPU simulation of the sandbox's containers."""
        gpus = self.former.gpus
        recording = self.at("gpus")
        recording.write_text(gpu_recording(self.node, gpus), encoding="utf-8")
        for source, target in (
            (cluster.FILES / "nvidia-smi", "/usr/local/bin/nvidia-smi"),
            (cluster.FILES / "simulated-gpus", "/usr/local/lib/simulated-gpus"),
            (recording, "/etc/simulated-gpus.xml"),
        ):
            mode = "0644" if source == recording else "0755"
            self.on_node(f"install -m {mode} /dev/stdin {target}", given=source.read_text(encoding="utf-8"))
        devices = (f"mknod -m 0666 /dev/nvidia{index} c {cluster.NVIDIA_MAJOR} {index}" for index in range(gpus))
        self.on_node(" && ".join(devices))

    def on_node(self, command: str, *, check: bool = True, timeout: float = 600, given: str = "") -> Any:  # noqa: ANN401
        """Run a shell command on the machine as root, with any host key."""
        own = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        own += ["-o", "IdentitiesOnly=yes", "-o", f"ConnectTimeout={SSH_TIMEOUT_S}"]
        own += ["-i", str(self.public_key.with_suffix(""))]
        words = ["ssh", *own, f"{ADMIN}@{self.address}", f"sudo bash -c {shlex.quote(command)}"]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=timeout, input=given)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def wait_for_bundle(self, timeout: float) -> None:
        """Wait until the machine has applied its bundle."""
        state = "systemctl show -P ActiveState busbar-node-pull"
        deadline = time.monotonic() + timeout
        while self.on_node(state).stdout.strip() == "activating":
            assert time.monotonic() < deadline, self.on_node("tail -n 50 /run/busbar/node_pull.log").stdout
            time.sleep(2)

    def console(self) -> str:
        """Return the console output."""
        return self.at("console").read_text(encoding="utf-8", errors="replace")

    def identity_lines(self) -> Iterable[str]:
        """Return the console lines with the host key."""
        return self.console().splitlines()

    def switch_off(self) -> None:
        """Power the machine off; its memory is lost."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + STOP_TIMEOUT_S
            if pid := self.pid():
                os.kill(pid, number)
            while self.pid() and time.monotonic() < deadline:
                time.sleep(0.1)
        self.at("pid").unlink(missing_ok=True)

    def pid(self) -> int | None:
        """Return its process ID, or None if it does not run."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self.at("pid").read_text())
            if self.process_name in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                return pid
        return None

    def remove(self) -> None:
        """Remove the machine and its files."""
        self.switch_off()
        subprocess.run(["ip", "link", "delete", self.cable], check=False, capture_output=True)
        super().remove()
