"""Creates, waits for and removes a group of machines."""

from __future__ import annotations

import base64
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.sandbox.cluster import in_parallel
from busbar.sandbox.host import run
from busbar.sandbox.image import ADMIN
from busbar.sandbox.state import sandbox_path
from busbar.vm import image, inventory, qemu
from busbar.vm.state import MACHINES, Group, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from busbar.vm.state import Machine

__all__ = ["check_host", "down", "up", "wait_for_boot"]

BOOT_TIMEOUT_S = 300
START_ATTEMPTS = 3
_TOOLS = {
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
SSH_CONFIG = """\
Host {name}
    HostName 127.0.0.1
    Port {port}
    User {admin}
    HostKeyAlias {name}
    IdentityFile {folder}/id_ed25519
    IdentitiesOnly yes
    StrictHostKeyChecking yes
    UserKnownHostsFile {folder}/known_hosts
    BatchMode yes
    ConnectTimeout 20
    ServerAliveInterval 10
    ControlMaster auto
    ControlPath ~/.ssh/busbar-%C
    ControlPersist 60
"""


def check_host() -> None:
    """Check the prerequisites and report all missing ones in one line.

    Raises:
        UsageError: not root, not x86-64, or tools are missing.
    """
    if os.geteuid() != 0:
        msg = "making a machine's disk needs root: run it with sudo"
        raise UsageError(msg)
    if platform.machine() != "x86_64":
        msg = f"the machines are made for hosts with x86_64 processors; this is {platform.machine()}"
        raise UsageError(msg)
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({package for tool, package in _TOOLS.items() if not shutil.which(tool, path=path)})
    if missing:
        packages = " ".join(missing)
        msg = f"virtual machines need {packages}: run scripts/setup --vm, or apt-get install {packages}"
        raise UsageError(msg)


def up(name: str, say: Callable[[str], None]) -> Group:
    """Start the group; running machines stay unchanged.

    Raises:
        UsageError: the host lacks a prerequisite, or a machine does not boot.
    """
    check_host()
    refuse_sandbox(name)
    began = time.monotonic()
    root = image.ensure_image(say)
    group = load(name) if running(name) else Group(name, qemu.choose_accelerator(root))
    (group.path / "ssh").mkdir(parents=True, exist_ok=True, mode=0o700)
    for machine in MACHINES:
        make_key(group, machine.name)
    make_key(group, "id_ed25519")
    for machine in MACHINES:
        launch(group, machine, root)
    write_ssh_files(group)
    inventory.write_inventory(group, say)
    in_parallel(lambda node: wait_for_boot(group, group.machine(node)), [machine.name for machine in MACHINES])
    names = ", ".join(machine.name for machine in MACHINES)
    say(f"machines {name}: {names} up in {time.monotonic() - began:.0f} s ({group.accelerator})")
    return group


def running(name: str) -> bool:
    """Return whether any machine of the group runs."""
    return any(qemu.pid_of(Group(name), machine) for machine in MACHINES)


def down(name: str) -> bool:
    """Stop the machines, remove their disks, and return whether anything existed.

    Raises:
        UsageError: a container sandbox with that name has its secrets and inventory in the same folder.
    """
    refuse_sandbox(name)
    group = Group(name)
    ran = [qemu.stop(group, machine) for machine in MACHINES]
    there = sandbox_path(name).exists()
    shutil.rmtree(group.path, ignore_errors=True)
    return there or any(ran)


def refuse_sandbox(name: str) -> None:
    """Check that no container sandbox has that name.

    Raises:
        UsageError: such a sandbox exists.
    """
    if (sandbox_path(name) / "sandbox.json").exists():
        msg = f"{name} is a sandbox of containers: name the machines otherwise with --name"
        raise UsageError(msg)


def make_key(group: Group, name: str) -> None:
    """Create an SSH key with this name in the group's folder, unless it exists."""
    key = group.path / "ssh" / name
    if not key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"busbar-{group.name}-{name}", "-f", str(key))


def read_key(group: Group, name: str, *, public: bool) -> str:
    """Return the public or private part of an SSH key."""
    return (group.path / "ssh" / (f"{name}.pub" if public else name)).read_text(encoding="utf-8")


def launch(group: Group, machine: Machine, root: image.Image) -> None:
    """Create a machine's disks and start it, on a new port if its port is in use."""
    if qemu.pid_of(group, machine):
        return
    make_disks(group, machine, root)
    authorized = read_key(group, "id_ed25519", public=True).strip()
    host_key = (read_key(group, machine.name, public=False), read_key(group, machine.name, public=True))
    lines = "\n".join(qemu.own_files(machine, authorized, host_key)) + "\n"
    encoded = base64.b64encode(lines.encode()).decode()
    credential = group.file(machine.name, "credential")
    credential.touch(mode=0o600)
    credential.write_text(f"io.systemd.credential.binary:tmpfiles.extra={encoded}", encoding="utf-8")
    for attempt in range(START_ATTEMPTS):
        group.ports[machine.name] = qemu.free_port()
        group.save()
        try:
            qemu.start(group, machine, root)
            break
        except UsageError:
            if attempt == START_ATTEMPTS - 1:
                raise


def make_disks(group: Group, machine: Machine, root: image.Image) -> None:
    """Create the missing disks: an overlay of the image, sparse disks, and disks with data."""
    overlay = group.file(machine.name, "root.qcow2")
    if not overlay.exists():
        run("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(root.disk), "-F", "raw", str(overlay))
    for serial, size in machine.disks.items():
        disk = group.file(machine.name, f"{serial}.disk")
        if disk.exists():
            continue
        with disk.open("wb") as file:
            file.truncate(size)
        if serial in machine.data_disks:
            fill(disk)


def fill(disk: Path) -> None:
    """Create a file system with a file on a disk, as example user data."""
    tree = disk.with_suffix(".tree")
    tree.mkdir()
    (tree / "thesis.txt").write_text("ten years of work\n", encoding="utf-8")
    run("mke2fs", "-q", "-t", "ext4", "-L", "thesis", "-d", str(tree), str(disk))
    shutil.rmtree(tree)


def write_ssh_files(group: Group) -> None:
    """Write the known host keys and the SSH configuration of each machine."""
    folder = group.path / "ssh"
    known, config = "", ""
    for machine in MACHINES:
        port = group.ports[machine.name]
        key = " ".join(read_key(group, machine.name, public=True).split()[:2])
        known += f"{machine.name},[127.0.0.1]:{port} {key}\n"
        config += SSH_CONFIG.format(name=machine.name, port=port, admin=ADMIN, folder=folder)
    # The control socket of the shared connection: socket paths must be short.
    (Path.home() / ".ssh").mkdir(mode=0o700, exist_ok=True)
    (folder / "known_hosts").write_text(known, encoding="utf-8")
    (folder / "config").write_text(config, encoding="utf-8")


def wait_for_boot(group: Group, machine: Machine) -> None:
    """Wait until systemd has finished booting.

    Raises:
        UsageError: the machine did not boot in time; names its console log.
    """
    command = ["ssh", "-F", str(group.ssh_config), machine.name, "systemctl is-system-running --wait"]
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    state = ""
    while time.monotonic() < deadline and qemu.pid_of(group, machine):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        state = done.stdout.strip()
        if state in {"running", "degraded"}:
            return
        time.sleep(1)
    msg = f"machine {machine.name} did not boot in {BOOT_TIMEOUT_S} s (systemd: {state or 'no answer'}); "
    msg += f"see {group.file(machine.name, 'console')}"
    raise UsageError(msg)
