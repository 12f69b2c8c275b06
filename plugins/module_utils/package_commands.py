"""How apt is called, by every module that installs packages: without questions, patiently, services held if wished."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["APT", "ENVIRONMENT", "error_text", "lists_are_fresh", "services_held"]

LISTS = Path("/var/lib/apt/lists")
POLICY = Path("/usr/sbin/policy-rc.d")
FRESH_S = 3600
APT = ["apt-get", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"]
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


def lists_are_fresh(lists: Path = LISTS) -> bool:
    """Return whether there are package lists of apt, fetched within the last hour."""
    found = [*lists.glob("*_Packages*"), *lists.glob("*_InRelease"), *lists.glob("*_Release")]
    return any(path.name.find("_Packages") > 0 for path in found) and (
        # The date of a list is the server's; the directory's is ours.
        time.time() - lists.stat().st_mtime < FRESH_S
    )


@contextlib.contextmanager
def services_held(*, held: bool, policy: Path = POLICY) -> Iterator[None]:
    """Keep Debian's packages from starting services, unless somebody else's policy is there already."""
    ours = held and not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)


def error_text(said: str) -> str:
    """Return the errors in what a package manager said, or its last lines."""
    errors = [line for line in said.splitlines() if line.startswith(("E:", "Error"))]
    return " ".join(errors or said.splitlines()[-5:])
