"""The image of a bare node: systemd, sshd, python3 and sudo, nothing else."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from pathlib import Path

from busbar.sandbox.host import podman, run
from busbar.sandbox.state import DISTRIBUTIONS

__all__ = ["ADMIN", "COMMON_HOOKS", "REPOSITORY", "ensure_image", "image_name", "recipe"]

REPOSITORY = "localhost/busbar-sandbox"
ADMIN = "admin"
# python3-apt belongs to every Debian server installation; Ansible's check mode cannot do without it.
PACKAGES = ["ca-certificates", "dbus", "openssh-server", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv"]
ZIP_BYTECODE = Path(__file__).resolve().parent / "files" / "busbar_zip_bytecode.py"
ZIP_BYTECODE_TEXT = base64.b64encode(ZIP_BYTECODE.read_bytes()).decode()
PYTHON_PACKAGES = "/usr/lib/python3/dist-packages"
# What every bare machine gets, container or virtual.
COMMON_HOOKS = [
    f'chroot "$1" useradd --create-home --shell /bin/bash {ADMIN}',
    f'echo "{ADMIN} ALL=(ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/{ADMIN}"',
    f'chmod 0440 "$1/etc/sudoers.d/{ADMIN}"',
    # Documentation and translations only cost time here, in the image and in each package that the roles add.
    'printf "path-exclude=/usr/share/%s/*\\n" doc man info locale >"$1/etc/dpkg/dpkg.cfg.d/sandbox"',
    'echo "force-unsafe-io" >>"$1/etc/dpkg/dpkg.cfg.d/sandbox"',
    # In the hook's own text, so that another content is another recipe.
    f'echo {ZIP_BYTECODE_TEXT} | base64 --decode >"$1{PYTHON_PACKAGES}/{ZIP_BYTECODE.name}"',
    f'echo "import {ZIP_BYTECODE.stem}" >"$1{PYTHON_PACKAGES}/{ZIP_BYTECODE.stem}.pth"',
]
# A node must make its own host keys and machine id, or all nodes of a cluster would share them.
HOOKS = [
    *COMMON_HOOKS,
    'rm -f "$1"/etc/ssh/ssh_host_*',
    ': >"$1/etc/machine-id"',
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
