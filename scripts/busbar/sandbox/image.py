"""The image of a bare node: systemd, sshd, python3 and sudo, nothing else."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from busbar.sandbox.host import podman, run
from busbar.sandbox.state import DISTRIBUTIONS

__all__ = ["ADMIN", "REPOSITORY", "ensure_image", "image_name", "recipe"]

REPOSITORY = "localhost/busbar-sandbox"
ADMIN = "admin"
# python3-apt belongs to every Debian server installation; Ansible's check mode cannot do without it.
PACKAGES = ["ca-certificates", "dbus", "openssh-server", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv"]
# A node must make its own host keys and machine id, or all nodes of a cluster would share them.
HOOKS = [
    f'chroot "$1" useradd --create-home --shell /bin/bash {ADMIN}',
    f'echo "{ADMIN} ALL=(ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/{ADMIN}"',
    f'chmod 0440 "$1/etc/sudoers.d/{ADMIN}"',
    'rm -f "$1"/etc/ssh/ssh_host_*',
    ': >"$1/etc/machine-id"',
    # Documentation and translations only cost time here, in the image and in each package that the roles add.
    'printf "path-exclude=/usr/share/%s/*\\n" doc man info locale >"$1/etc/dpkg/dpkg.cfg.d/sandbox"',
    'echo "force-unsafe-io" >>"$1/etc/dpkg/dpkg.cfg.d/sandbox"',
]


def recipe(distribution: str) -> list[str]:
    """The mmdebstrap command, less the output file."""
    hooks = [f"--customize-hook={hook}" for hook in HOOKS]
    return ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", *hooks, DISTRIBUTIONS[distribution]]


def image_name(distribution: str) -> str:
    """The image's name; its tag changes with the recipe, so that an old image is never mistaken for a new one."""
    digest = hashlib.sha256("\0".join(recipe(distribution)).encode()).hexdigest()[:10]
    return f"{REPOSITORY}:{distribution}-{digest}"


def ensure_image(distribution: str, *, rebuild: bool = False) -> bool:
    """Make the image unless it is there.

    Returns:
        whether it had to be made.

    Raises:
        UsageError: mmdebstrap or podman failed.
    """
    name = image_name(distribution)
    if not rebuild and podman("image", "exists", name, check=False).returncode == 0:
        return False
    with tempfile.TemporaryDirectory(prefix="busbar-image-") as folder:
        archive = Path(folder) / "root.tar"
        run(*recipe(distribution), str(archive))
        podman("import", "--quiet", str(archive), name)
    return True
