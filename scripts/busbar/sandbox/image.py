"""The image of a bare node: only systemd, sshd, python3 and sudo."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.sandbox.host import podman, run
from busbar.sandbox.state import DISTRIBUTIONS, IMAGES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

REPOSITORY = "localhost/busbar-sandbox"
ADMIN = "admin"
# Every Debian server installation has python3-apt, and Ansible's check mode requires it.
PACKAGES = ["ca-certificates", "dbus", "openssh-server", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv"]
FILES = Path(__file__).resolve().parent / "files"
ZIP_BYTECODE = FILES / "busbar_zip_bytecode.py"
ZIP_BYTECODE_TEXT = base64.b64encode(ZIP_BYTECODE.read_bytes()).decode()
DPKG = "/etc/dpkg/dpkg.cfg.d"
PYTHON_PACKAGES = '$(chroot "$1" python3 -c "import site; print(site.getsitepackages()[-1])")'
# Hooks for every bare container and virtual machine.
COMMON_HOOKS = [
    f'chroot "$1" useradd --create-home --shell /bin/bash {ADMIN}',
    f'echo "{ADMIN} ALL=(ALL) NOPASSWD: ALL" >"$1/etc/sudoers.d/{ADMIN}"',
    f'chmod 0440 "$1/etc/sudoers.d/{ADMIN}"',
    # Documentation and translations slow down the image and every installation by the roles.
    f'! test -d "$1{DPKG}" || printf "path-exclude=/usr/share/%s/*\\n" doc man info locale >"$1{DPKG}/sandbox"',
    f'! test -d "$1{DPKG}" || echo "force-unsafe-io" >>"$1{DPKG}/sandbox"',
    # Part of the hook's text, so that a change of the content changes the recipe.
    f'mkdir -p "$1{PYTHON_PACKAGES}"',
    f'echo {ZIP_BYTECODE_TEXT} | base64 --decode >"$1{PYTHON_PACKAGES}/{ZIP_BYTECODE.name}"',
    f'echo "import {ZIP_BYTECODE.stem}" >"$1{PYTHON_PACKAGES}/{ZIP_BYTECODE.stem}.pth"',
]
# Nodes must generate their own host keys and machine IDs, otherwise all nodes of a cluster would share them.
HOOKS = [
    *COMMON_HOOKS,
    'rm -f "$1"/etc/ssh/ssh_host_*',
    ': >"$1/etc/machine-id"',
]
# By package manager of the base image.
CONTAINERFILES = {"apt-get": FILES / "Containerfile.debian", "dnf": FILES / "Containerfile.el"}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def recipe(distribution: str) -> list[str]:
    """Return the mmdebstrap command without the output file."""
    hooks = [f"--customize-hook={hook}" for hook in HOOKS]
    return ["mmdebstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", *hooks, DISTRIBUTIONS[distribution]]


def image_name(distribution: str) -> str:
    """Return the name of the image that mmdebstrap builds; the tag is a hash of the recipe."""
    return _tagged(distribution, recipe(distribution))


def _tagged(label: str, parts: Sequence[str]) -> str:
    return f"{REPOSITORY}:{label}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:10]}"


def ensure_image(distribution: str, reference: str = "", *, rebuild: bool = False) -> tuple[str, bool]:
    """Build the image of a bare node if it does not exist, by mmdebstrap or from an OCI image.

    The tag is a hash of the recipe and the base image, so that stale images are not used.

    Args:
        distribution: key of DISTRIBUTIONS or IMAGES; empty with `reference`.
        reference: an OCI image to use instead.
        rebuild: build in any case, from the newest base image that the registry has.

    Returns:
        name of the image, and whether it was built.

    Raises:
        UsageError: the base image is missing or unsuitable, or the build failed.
    """
    reference = reference or IMAGES.get(distribution, "")
    base, containerfile = _base_image(reference, rebuild=rebuild) if reference else ("", "")
    name = _tagged(distribution or "image", [containerfile, base, *HOOKS]) if reference else image_name(distribution)
    if not rebuild and podman("image", "exists", name, check=False).returncode == 0:
        return name, False
    if reference:
        # Without layers, the build leaves no intermediate images. Chroot isolation works with every cgroup version.
        arguments = [f"--build-arg=BASE={base}", "--build-arg=HOOKS=" + "\n".join(HOOKS), f"--tag={name}", "-"]
        words = ("build", "--quiet", "--isolation=chroot", "--pull=never", "--layers=false", *arguments)
        built = podman(*words, check=False, stdin=containerfile)
    else:
        with tempfile.TemporaryDirectory(prefix="busbar-image-") as folder:
            archive = Path(folder) / "root.tar"
            built = run(*recipe(distribution), str(archive), check=False)
            if built.returncode == 0:
                podman("import", "--quiet", str(archive), name)
    if built.returncode:
        msg = f"{reference or distribution}: the image of a bare node cannot be built ({_reason(built)}). Remedy: make "
        msg += "the package archive reachable from this machine, or use --image with one whose sources name your mirror"
        raise UsageError(msg)
    return name, True


def _base_image(reference: str, *, rebuild: bool) -> tuple[str, str]:
    """Return the digest of an OCI image, which is pulled if necessary, and the Containerfile for its distribution."""
    present = podman("image", "exists", reference, check=False).returncode == 0
    if rebuild or not present:
        pulled = podman("pull", "--quiet", reference, check=False)
        if pulled.returncode and not present:
            msg = f"{reference}: the image cannot be pulled ({_reason(pulled)}). Remedy: name a registry that this "
            msg += "machine reaches (--image, or a mirror in /etc/containers/registries.conf), copy the image here "
            msg += "with podman save and podman load, or use --distribution debian13, which needs no registry"
            raise UsageError(msg)
    found = json.loads(podman("image", "inspect", reference).stdout)[0]
    own = ARCHITECTURES.get(platform.machine(), platform.machine())
    if found["Architecture"] != own:
        msg = f"{reference}: is an image of another architecture (found {found['Architecture']}, expected {own}). "
        msg += f"Remedy: podman pull --arch {own} {reference}, or start the sandbox on such a machine"
        raise UsageError(msg)
    root = Path(podman("image", "mount", found["Id"]).stdout.strip())
    try:
        managers = [name for name in CONTAINERFILES if os.path.lexists(root / "usr/bin" / name)]
    finally:
        podman("image", "umount", found["Id"])
    if not managers:
        msg = f"{reference}: has no package manager that busbar supports (expected {' or '.join(CONTAINERFILES)}). "
        msg += "Remedy: use the standard image of Debian, Ubuntu, Rocky Linux or AlmaLinux, not a minimal one"
        raise UsageError(msg)
    return found["Id"], CONTAINERFILES[managers[0]].read_text(encoding="utf-8")


def _reason(failed: subprocess.CompletedProcess[str]) -> str:
    """Return the first error of a program that reports several, or its last line."""
    lines = (failed.stderr.strip() or failed.stdout.strip() or "no output").splitlines()
    return next((line for line in lines if line.startswith(("E: ", "Error: "))), lines[-1])
