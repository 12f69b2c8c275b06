"""Builds an image: installs Debian into a folder, removes the identity of the machine, and packs the folder.

Between these steps the roles configure the folder as a chroot.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.image.bundle_inventory import SHORTEST_SECRET
from busbar.sandbox.host import run
from busbar.sandbox.state import DISTRIBUTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKAGES = [
    *("ca-certificates", "dbus", "initramfs-tools", "iproute2", "kmod", "live-boot", "openssh-server", "python3"),
    *("python3-apt", "sudo", "systemd", "systemd-sysv", "udev", "util-linux", "zstd"),
]
KERNEL = "linux-image-amd64"
# Steps that run in the image; the booted node runs the rest of each role.
TAGS = "image,hosts_install,munge_install,slurm_install,node_pull"
NETWORK = "[Match]\nType=ether\n\n[Network]\nDHCP=yes\n\n[DHCPv4]\nClientIdentifier=mac\n"
# Services that their packages enable. The provisioning host starts them once it has set up the munge key, the
# controller and TLS.
DISABLED_UNITS = ["munge.service", "slurmd.service", "prometheus-node-exporter.service"]
# Identity of a machine, and random data that packages generated during installation.
IDENTITY = (
    *("etc/hostname", "etc/ssh/ssh_host_*", "etc/munge/munge.key", "etc/ssl/private/*", "etc/resolv.conf"),
    *("var/lib/dbus/machine-id", "var/lib/systemd/random-seed", "var/lib/systemd/credential.secret"),
    *("var/lib/busbar/baseline", "var/lib/busbar/state", "var/lib/chrony/*", "var/lib/dhcp/*"),
    *("root/.ssh/id_*", "root/.ssh/known_hosts", "root/.bash_history", "root/.ansible"),
    *("var/cache/apt/*", "var/lib/apt/lists/*", "tmp/*", "var/tmp/*", "usr/sbin/policy-rc.d"),
)
# Only the files are removed: some daemons do not start without their log folder.
LOGS = "var/log"
# Folders that may contain a secret.
SEARCHED = ("etc", "root", "home", "srv", "opt", "usr/local", "var")
PRIVATE_KEY = b"PRIVATE KEY-----"
SEARCHED_MAX = 64 << 20
_CLONE_NEWNS = 0x00020000
_TOOLS = {"mmdebstrap": "mmdebstrap", "mksquashfs": "squashfs-tools", "ssh-keygen": "openssh-client"}


@dataclasses.dataclass(frozen=True)
class Login:
    """The account, with its public key, that may log in to nodes that booted the image."""

    user: str
    public_key: str


def check_host() -> None:
    """Check that this user is root and that all required tools are installed.

    Raises:
        UsageError: this user is not root, or a tool is missing.
    """
    if os.geteuid() != 0:
        message = f"building an image requires root (found UID {os.geteuid()}): run the command with sudo"
        raise UsageError(message)
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({package for tool, package in _TOOLS.items() if not shutil.which(tool, path=path)})
    if missing:
        packages = " ".join(missing)
        message = f"building an image requires {packages}: run scripts/setup --vm, or apt-get install {packages}"
        raise UsageError(message)


def install_debian(root: Path, distribution: str, login: Login, kernel: str = KERNEL) -> None:
    """Install a minimal Debian with a kernel and network boot support into a folder.

    Raises:
        UsageError: mmdebstrap failed.
    """
    include = ",".join([*PACKAGES, "live-boot-initramfs-tools", kernel])
    run("mmdebstrap", "--variant=minbase", f"--include={include}", DISTRIBUTIONS[distribution], str(root))
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="utf-8")
    (root / "etc/systemd/network/50-busbar-boot.network").write_text(NETWORK, encoding="utf-8")
    chroot(root, "systemctl", "--quiet", "enable", "systemd-networkd.service")
    home = Path("root") if login.user == "root" else Path("home") / login.user
    if login.user != "root":
        chroot(root, "useradd", "--create-home", "--shell", "/bin/bash", login.user)
        rule = root / "etc/sudoers.d" / login.user
        rule.write_text(f"{login.user} ALL=(ALL) NOPASSWD: ALL\n", encoding="utf-8")
        rule.chmod(0o440)
    folder = root / home / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "authorized_keys").write_text(f"{login.public_key.strip()}\n", encoding="utf-8")
    chroot(root, "chown", "-R", f"{login.user}:", f"/{home}/.ssh")


def chroot(root: Path, *command: str) -> None:
    """Run a command in a chroot of the image."""
    run("chroot", str(root), *command)


@contextlib.contextmanager
def mounted(root: Path) -> Iterator[None]:
    """Prepare the image for package installations: name resolution, /proc, and a policy-rc.d that starts no daemons.

    The mounts are in a private mount namespace, so none remain when the processes end.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNS):
        message = (
            f"this host does not allow private mount namespaces: {os.strerror(ctypes.get_errno())}: build the image on "
            "a virtual or physical machine"
        )
        raise UsageError(message)
    run("mount", "--make-rprivate", "/")
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    run("mount", "-t", "proc", "proc", str(root / "proc"))
    try:
        yield
    finally:
        run("umount", str(root / "proc"), check=False)
        policy.unlink(missing_ok=True)


def chroot_variables(root: Path, like: str) -> dict[str, object]:
    """Return the variables that make a playbook configure the image instead of a host."""
    return {
        "ansible_connection": "community.general.chroot",
        "ansible_host": str(root),
        "ansible_become": False,
        "image_like": like,
    }


def seal(root: Path) -> None:
    """Remove node identities and secrets from the image."""
    for unit in DISABLED_UNITS:
        if (root / "usr/lib/systemd/system" / unit).exists() or (root / "lib/systemd/system" / unit).exists():
            chroot(root, "systemctl", "--quiet", "disable", unit)
    for pattern in IDENTITY:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in _logs(root):
        path.unlink()
    # Empty instead of missing: systemd then generates an ID without treating this as the first boot.
    (root / "etc/machine-id").write_text("", encoding="utf-8")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="utf-8")


def _logs(root: Path) -> list[Path]:
    """Return the log files in the image."""
    return [path for path in sorted((root / LOGS).rglob("*")) if path.is_symlink() or not path.is_dir()]


def traces(root: Path, secrets: Mapping[str, str]) -> list[str]:
    """Return the files in the image that still contain an identity or a secret, each with a description.

    Args:
        root: folder of the image.
        secrets: the secrets of the site by name.
    """
    own = [*(path for mark in IDENTITY for path in root.glob(mark)), *_logs(root)]
    found = [f"/{path.relative_to(root)}: differs between nodes" for path in own]
    machine = root / "etc/machine-id"
    if not machine.exists() or machine.read_bytes():
        found.append("/etc/machine-id: is not empty")
    wanted = {name: text.strip().encode() for name, text in secrets.items() if len(text.strip()) >= SHORTEST_SECRET}
    for folder in SEARCHED:
        for path in sorted((root / folder).rglob("*")):
            if path.is_symlink() or not path.is_file() or path.stat().st_size > SEARCHED_MAX:
                continue
            content = path.read_bytes()
            place = f"/{path.relative_to(root)}"
            if content.lstrip().startswith(b"-----BEGIN") and PRIVATE_KEY in content[:200]:
                found.append(f"{place}: is a private key")
            found += [f"{place}: contains the secret {name}" for name, text in wanted.items() if text in content]
    return sorted(set(found))


def pack(root: Path, folder: Path) -> None:
    """Pack the image into a kernel, its initramfs and a SquashFS image, each written atomically.

    Raises:
        UsageError: the root has no kernel, or mksquashfs failed.
    """
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if not kernels:
        message = f"{root}: contains no kernel: use another --kernel"
        raise UsageError(message)
    version = kernels[-1].name.removeprefix("vmlinuz-")
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as made:
        shutil.copyfile(kernels[-1], Path(made) / "vmlinuz")
        shutil.copyfile(root / f"boot/initrd.img-{version}", Path(made) / "initrd.img")
        options = ("-quiet", "-no-progress", "-comp", "zstd", "-Xcompression-level", "12", "-e", "boot")
        run("mksquashfs", str(root), f"{made}/root.squashfs", *options)
        for name in ("vmlinuz", "initrd.img", "root.squashfs"):
            (Path(made) / name).chmod(0o644)
            (Path(made) / name).replace(folder / name)
