"""The image of a bare node: only systemd, sshd, python3 and sudo."""

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
# Every Debian server installation has python3-apt, and Ansible's check mode requires it.
PACKAGES = ["ca-certificates", "dbus", "openssh-server", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv"]
ZIP_BYTECODE = Path(__file__).resolve().parent / "files" / "busbar_zip_bytecode.py"
ZIP_BYTECODE_TEXT = base64.b64encode(ZIP_BYTECODE.read_bytes()).decode()
PYTHON_PACKAGES = "/usr/lib/python3/dist-packages"
# Hooks for every bare container and virtual machine.
COMMON_HOOKS = [
    f'chroot "$1" useradd --create-home --shell /bin/bash {ADMIN}',
    f'echo "{ADMIN} ALL=(ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/{ADMIN}"',
    f'chmod 0440 "$1/etc/sudoers.d/{ADMIN}"',
    # Documentation and translations slow down the image and every installation by the roles.
    'printf "path-exclude=/usr/share/%s/*\\n" doc man info locale >"$1/etc/dpkg/dpkg.cfg.d/sandbox"',
    'echo "force-unsafe-io" >>"$1/etc/dpkg/dpkg.cfg.d/sandbox"',
    # Part of the hook's text, so that a change of the content changes the recipe.
    f'echo {ZIP_BYTECODE_TEXT} | base64 --decode >"$1{PYTHON_PACKAGES}/{ZIP_BYTECODE.name}"',
    f'echo "import {ZIP_BYTECODE.stem}" >"$1{PYTHON_PACKAGES}/{ZIP_BYTECODE.stem}.pth"',
]
# Nodes must generate their own host keys and machine IDs, otherwise all nodes of a cluster would share them.
HOOKS = [
    *COMMON_HOOKS,
    'rm -f "$1"/etc/ssh/ssh_host_*',
    ': >"$1/etc/machine-id"',
]


def recipe(distribution: str) -> list[str]:
    """Return the mmdebstrap command without the output file."""
    hooks = [f"--customize-hook={hook}" for hook in HOOKS]
    return ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", *hooks, DISTRIBUTIONS[distribution]]


def image_name(distribution: str) -> str:
    """Return the name of the image; its tag is a hash of the recipe, so that stale images are not used."""
    digest = hashlib.sha256("\0".join(recipe(distribution)).encode()).hexdigest()[:10]
    return f"{REPOSITORY}:{distribution}-{digest}"


def ensure_image(distribution: str, *, rebuild: bool = False) -> bool:
    """Build the image if it does not exist.

    Returns:
        whether the image was built.

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
