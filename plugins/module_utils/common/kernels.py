"""The kernels that a host could boot."""

from __future__ import annotations

from pathlib import Path

__all__ = ["installed_kernels"]


def installed_kernels(root: Path = Path("/")) -> list[str]:
    """Return the releases of the kernels that could be booted."""
    images = [path.name.partition("-")[2] for path in (root / "boot").glob("vmlinu[xz]-*")]
    found = {*images, *(path.parent.name for path in (root / "usr/lib/modules").glob("*/vmlinuz"))}
    return sorted(release for release in found if "rescue" not in release)
