"""Choose the kernel header packages that DKMS needs, for the running kernel and its upgrades.

Runs on hosts, which query these packages, and on the provisioning host, which chooses among them.

Sources of the names: Debian's and Ubuntu's kernels are `linux-image-RELEASE`, their headers `linux-headers-RELEASE`; a
package without a release (`linux-image-amd64`, `linux-image-generic-hwe-24.04`) depends on the newest of its kind, and
so does `linux-headers-` with the same suffix. On EL kernel-devel-matched (kernel.spec) depends on kernel-devel and
kernel-core of its version, and is upgraded with the kernel; the NVIDIA Driver Installation Guide requires it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["EL_HEADERS", "header_names", "kernel_flavour", "lacking_headers", "wanted_headers"]

EL_HEADERS = "kernel-devel-matched"
_IMAGE, _HEADERS = "linux-image-", "linux-headers-"
# 6.8.0-136-generic, 6.1.0-28-cloud-amd64, 6.12.57+deb13-amd64, 6.1.0-0.deb11.5-amd64
_RELEASE = re.compile(r"\d+(?:\.\d+)+(?:-\d[\w.]*)?(?:[+~][\w.~]+)*-(?P<flavour>[a-z].*)")


def kernel_flavour(release: str) -> str:
    """Return the flavour in a Debian or Ubuntu kernel release: 'cloud-amd64' for '6.1.0-28-cloud-amd64'."""
    match = _RELEASE.fullmatch(release)
    return match.group("flavour") if match else release.rpartition("-")[2]


def _followers(release: str, kernels: Iterable[str]) -> list[str]:
    """Return the header packages that follow the installed kernel packages, or the running kernel's flavour."""
    kinds = [name[len(_IMAGE) :] for name in sorted(kernels) if name.startswith(_IMAGE)]
    followed = [kind for kind in kinds if kind[:1].isalpha() and not kind.startswith(("unsigned-", "extra-"))]
    return [f"{_HEADERS}{kind}" for kind in followed or [kernel_flavour(release)]]


def header_names(release: str, kernels: Iterable[str]) -> list[str]:
    """Return the header packages to query with apt.

    Args:
        release: release of the running kernel (`uname -r`).
        kernels: the installed packages `linux-image-*`.
    """
    return [f"{_HEADERS}{release}", *_followers(release, kernels)]


def wanted_headers(found: Mapping[str, Any], *, is_el: bool) -> list[str]:
    """Return the header packages to install on a host.

    Args:
        found: from `driver_host.read_driver`: `kernel_release`, `kernels`, `headers` (whether those of the running
            kernel are present), `installed`, `available`.
        is_el: whether it is RHEL or a rebuild.
    """
    release, installed = str(found["kernel_release"]), found["installed"]
    if is_el:
        if EL_HEADERS not in installed:
            # Request the running kernel's version; another version would install another kernel.
            return [f"{EL_HEADERS}-{release}"]
        return [] if found["headers"] else [f"kernel-devel-{release}"]
    exact, *followers = header_names(release, found["kernels"])
    known = {*installed, *found["available"]}
    return [*([] if found["headers"] else [exact]), *(name for name in followers if name in known)]


def lacking_headers(found: Mapping[str, Any], *, is_el: bool) -> str:
    """Return the header package of the running kernel if no repository has it, or ''."""
    if found["headers"] or is_el or not found["index"]:
        return ""
    exact = f"{_HEADERS}{found['kernel_release']}"
    return "" if exact in found["available"] or exact in found["installed"] else exact
