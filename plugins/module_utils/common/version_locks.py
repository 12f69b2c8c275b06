"""Parse the lines of dnf's versionlock.

Source: plugins/versionlock.py of github.com/rpm-software-management/dnf-plugins-core, 4.3 to 4.10. `versionlock add`
writes a comment with the date, and NAME-EPOCH:VERSION-RELEASE.* with epoch 0 if the package has none. If any version
of the package is already locked, it writes nothing and succeeds. A line with `!` is an exclude. A line from --raw or by
hand may be any package specification; `versionlock delete` finds such a line only by its full text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["holds", "lock_lines", "lock_name", "locks_about"]

_WRITTEN = re.compile(r"(?P<name>.+)-\d+:[^-]+-[^-]+")
# A manually written lock: a name with a version, or with version and release.
_RAW = re.compile(r"(?P<name>.+?)-\d[^-]*(-[^-]+)?")


def lock_lines(text: str) -> list[str]:
    """Return the locks in the text of versionlock.list, without comments and excludes."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "!"))]


def lock_name(line: str) -> str:
    """Return the package name of a lock: 'nvlsm' for 'nvlsm-0:2025.10-1.el9.*'."""
    match = _WRITTEN.fullmatch(line) or _RAW.fullmatch(line)
    return match.group("name") if match else line


def holds(line: str, name: str, version: str) -> bool:
    """Return whether a lock holds a package at exactly this version, such as '3:580.95.05-1.el9'."""
    full = f"{name}-{version}" if ":" in version else f"{name}-0:{version}"
    return line == full or line.startswith(f"{full}.")


def locks_about(lines: Iterable[str], concerns: Callable[[str], bool]) -> list[str]:
    """Return the locks on packages for whose name `concerns` is true."""
    return [line for line in lines if concerns(lock_name(line))]
