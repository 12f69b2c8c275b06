"""Find bootable kernels, and whether one is newer than the running kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["installed_kernels", "newer_kernel"]

_RELEASE = re.compile(r"^(\d+(?:\.\d+)*)(?:-([\d.]+))?(.*)$")


def installed_kernels(root: Path = Path("/")) -> list[str]:
    """Return the releases of the bootable kernels."""
    images = [path.name.partition("-")[2] for path in (root / "boot").glob("vmlinu[xz]-*")]
    found = {*images, *(path.parent.name for path in (root / "usr/lib/modules").glob("*/vmlinuz"))}
    return sorted(release for release in found if "rescue" not in release)


def newer_kernel(running: str, installed: Sequence[str]) -> str:
    """Return the newest installed kernel of the running flavour; '' if it is running or unknown.

    Args:
        running: output of `uname -r`: '6.8.0-60-generic', '6.12.48+deb13-amd64', '5.14.0-570.el9.x86_64'.
        installed: bootable releases. If the running one is missing, as in a container, the running kernel belongs to
            another host.
    """
    now = _key(running)
    if running not in installed or now is None:
        return ""
    alike = [(key, release) for release in installed if (key := _key(release)) is not None and key[1] == now[1]]
    best = max(alike)
    return best[1] if best[0] > now else ""


def _key(release: str) -> tuple[tuple[int, ...], str] | None:
    """Return version numbers and flavour of a kernel; the flavour has no digits, so '.el9_6' equals '.el9'."""
    match = _RELEASE.match(release)
    if not match:
        return None
    numbers = tuple(int(number) for part in match.groups()[:2] if part for number in re.findall(r"\d+", part))
    return numbers, re.sub(r"[\d_]+", "", match.group(3))
