"""Which packages hold the headers that DKMS builds with: of the running kernel, and of those that follow it.

Runs on a host's own python3, which asks for these names, and on the provisioning host, which chooses among them.

Sources of the names: Debian's and Ubuntu's kernels are `linux-image-RELEASE`, their headers `linux-headers-RELEASE`; a
package without a release (`linux-image-amd64`, `linux-image-generic-hwe-24.04`) depends on the newest of its kind, and
`linux-headers-` of the same name does so for the headers. On EL kernel-devel-matched (kernel.spec) depends on the
kernel-devel and the kernel-core of its own version, and is upgraded with the kernel; the NVIDIA Driver Installation
Guide asks for it.
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
    """Return the kind of a Debian or Ubuntu kernel from its release: '6.1.0-28-cloud-amd64' is 'cloud-amd64'."""
    match = _RELEASE.fullmatch(release)
    return match.group("flavour") if match else release.rpartition("-")[2]


def _followers(release: str, kernels: Iterable[str]) -> list[str]:
    """Return the headers that are upgraded with the installed kernels, or with one of the running kernel's kind."""
    kinds = [name[len(_IMAGE) :] for name in sorted(kernels) if name.startswith(_IMAGE)]
    followed = [kind for kind in kinds if kind[:1].isalpha() and not kind.startswith(("unsigned-", "extra-"))]
    return [f"{_HEADERS}{kind}" for kind in followed or [kernel_flavour(release)]]


def header_names(release: str, kernels: Iterable[str]) -> list[str]:
    """Return the packages of headers that apt is asked for.

    Args:
        release: of the running kernel, as `uname -r` says it.
        kernels: the installed packages `linux-image-*`.
    """
    return [f"{_HEADERS}{release}", *_followers(release, kernels)]


def wanted_headers(found: Mapping[str, Any], *, is_el: bool) -> list[str]:
    """Return the packages of headers that a host is to have.

    Args:
        found: what `driver_host.read_driver` returns: `kernel_release`, `kernels`, `headers` (whether those of the
            running kernel are there), `installed`, `available`.
        is_el: whether it is RHEL or one made of its sources.
    """
    release, installed = str(found["kernel_release"]), found["installed"]
    if is_el:
        if EL_HEADERS not in installed:
            # Of the running kernel; any other would bring another kernel along.
            return [f"{EL_HEADERS}-{release}"]
        return [] if found["headers"] else [f"kernel-devel-{release}"]
    exact, *followers = header_names(release, found["kernels"])
    known = {*installed, *found["available"]}
    return [*([] if found["headers"] else [exact]), *(name for name in followers if name in known)]


def lacking_headers(found: Mapping[str, Any], *, is_el: bool) -> str:
    """Return the package with the running kernel's headers when no repository has it, '' when all is well."""
    if found["headers"] or is_el or not found["index"]:
        return ""
    exact = f"{_HEADERS}{found['kernel_release']}"
    return "" if exact in found["available"] or exact in found["installed"] else exact
