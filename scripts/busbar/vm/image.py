"""The base disk of all machines: a bare Debian with its kernel, and the packages of the tested roles."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.sandbox.host import run
from busbar.sandbox.image import COMMON_HOOKS
from busbar.sandbox.state import DISTRIBUTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Image", "cache_root", "digest", "ensure_image", "recipe"]

# Debian 13's kernel panics in Debian 12's QEMU.
DISTRIBUTION = "debian12"
DISK_SIZE = "3G"
# Every Debian server installation has python3-apt, and Ansible's check mode requires it.
BARE_PACKAGES = [
    "ca-certificates",
    "dbus",
    "initramfs-tools",
    "iproute2",
    "kmod",
    "linux-image-cloud-amd64",
    "openssh-server",
    "python3",
    "python3-apt",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
    "zstd",
]
# Packages that the roles install, because an emulator needs minutes instead of seconds. Their services stay disabled.
ROLE_PACKAGES = [
    "chrony",
    "libpam-slurm-adopt",
    "lvm2",
    "mdadm",
    "munge",
    "nfs-common",
    "nfs-kernel-server",
    "slurm-client",
    "slurmctld",
    "slurmd",
    "xfsprogs",
]
ROLE_SERVICES = [
    "chrony.service",
    "munge.service",
    "nfs-server.service",
    "rpcbind.service",
    "rpcbind.socket",
    "slurmctld.service",
    "slurmd.service",
]
SLOW_UNITS = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
]
# An emulator needs long to unpack a full initramfs, and to regenerate it for the mdadm package.
EARLY_HOOKS = [
    'mkdir -p "$1/etc/initramfs-tools/conf.d"',
    'printf "MODULES=list\\nCOMPRESS=zstd\\n" >"$1/etc/initramfs-tools/conf.d/busbar"',
    'printf "virtio_pci\\nvirtio_blk\\next4\\n" >"$1/etc/initramfs-tools/modules"',
]
NETWORK_UNIT = "/etc/systemd/system/systemd-networkd.service.d"
# The network waits for systemd-tmpfiles, which writes a machine's files (see `busbar.vm.qemu`) at its first boot.
HOOKS = [
    *COMMON_HOOKS,
    'rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/hostname" "$1/etc/hosts" "$1/etc/resolv.conf"',
    'echo "nameserver 10.0.2.3" >"$1/etc/resolv.conf"',
    ': >"$1/etc/machine-id"',
    f'mkdir -p "$1{NETWORK_UNIT}"',
    f'printf "[Unit]\\nAfter=systemd-tmpfiles-setup.service\\n" >"$1{NETWORK_UNIT}/busbar.conf"',
    'chroot "$1" systemctl --quiet enable systemd-networkd',
    f'chroot "$1" systemctl --quiet disable {" ".join(ROLE_SERVICES)}',
    f'chroot "$1" systemctl --quiet mask {" ".join(SLOW_UNITS)}',
]


@dataclasses.dataclass(frozen=True)
class Image:
    """The boot files of a machine, in one folder that is read-only after the build."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The root file system: an unpartitioned raw disk with ext4."""
        return self.folder / "disk.raw"

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """Its initramfs."""
        return self.folder / "initrd.img"


def recipe() -> list[str]:
    """Return the mmdebstrap command without the output folder."""
    early = [f"--essential-hook={hook}" for hook in EARLY_HOOKS]
    hooks = [f"--customize-hook={hook}" for hook in HOOKS]
    include = f"--include={','.join([*BARE_PACKAGES, *ROLE_PACKAGES])}"
    return ["mmdebstrap", "--variant=minbase", include, *early, *hooks, DISTRIBUTIONS[DISTRIBUTION]]


def digest() -> str:
    """Return a hash of the recipe, so that stale images are not used."""
    return hashlib.sha256("\0".join([*recipe(), DISK_SIZE]).encode()).hexdigest()[:10]


def cache_root() -> Path:
    """Return the folder of all images, shared by all checkouts of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "busbar" / "vm"


def ensure_image(say: Callable[[str], None]) -> Image:
    """Return the image; build it if it does not exist. A second process waits for the first.

    Raises:
        UsageError: mmdebstrap or mke2fs failed.
    """
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    image = Image(root / f"{DISTRIBUTION}-{digest()}")
    with (root / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.folder.exists():
            say(f"making the image of {DISTRIBUTION}; it is kept in {root}")
            build(image)
    return image


def build(image: Image) -> None:
    """Build the image in a temporary folder and move it into place when it is complete."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=image.folder.parent) as made:
        fresh, tree = Image(Path(made) / "image"), Path(made) / "tree"
        fresh.folder.mkdir()
        run(*recipe(), str(tree))
        shutil.copyfile(next((tree / "boot").glob("vmlinuz-*")), fresh.kernel)
        shutil.copyfile(next((tree / "boot").glob("initrd.img-*")), fresh.initrd)
        run("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", str(tree), str(fresh.disk), DISK_SIZE)
        fresh.folder.rename(image.folder)
