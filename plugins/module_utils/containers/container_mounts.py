"""Convert mounts in the format of Pyxis' --container-mounts to lines of Enroot's fstab, for all containers.

Pyxis (args.c, parse_mount_option) accepts SRC[:DST[:FLAGS]] with flags joined by `+`, and mounts with
`x-create=auto,rbind` in front of them. Enroot passes unknown flags to the kernel, which ignores them for bind mounts
(enroot-mount.c, parse_mount_opts): a misspelt `ro` would be writable. So unknown flags are rejected here.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from ..common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..common.problems import Problem

__all__ = ["mount_lines"]

_KEY = "enroot_mounts"
_DEFAULT = "x-create=auto,rbind"
_FLAGS = frozenset(
    {
        "async",
        "atime",
        "bind",
        "dev",
        "exec",
        "noatime",
        "nodev",
        "nodiratime",
        "noexec",
        "nofail",
        "nosuid",
        "private",
        "rbind",
        "relatime",
        "ro",
        "rprivate",
        "rshared",
        "rslave",
        "rw",
        "shared",
        "silent",
        "slave",
        "sync",
        "x-create=auto",
        "x-create=dir",
        "x-create=file",
    }
)
# Characters that are special in fstab lines, in the shell that Enroot reads them with, or in Pyxis' format.
_UNSAFE = frozenset(" \t\n\"'`$\\#")


def _problem(mount: str, problem: str, remedy: str) -> Problem:
    return make_problem([], _KEY, f"{mount!r} {problem}", remedy)


def _flag_problems(mount: str, flags: Sequence[str]) -> list[Problem]:
    """Return a problem for each flag that Enroot does not support."""
    problems = []
    for flag in flags:
        if flag not in _FLAGS:
            near = difflib.get_close_matches(flag, _FLAGS, 1)
            meant = f"write {near[0]}" if near else f"use one or more of {', '.join(sorted(_FLAGS))}"
            problems.append(_problem(mount, f"has the flag {flag!r}, which Enroot does not support", meant))
    return problems


def mount_lines(mounts: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Return the fstab lines of the valid mounts, and the errors in the others.

    Args:
        mounts: each `SOURCE[:TARGET[:FLAGS]]`, absolute paths, flags joined by `+`.
    """
    lines: list[str] = []
    problems: list[Problem] = []
    targets: dict[str, str] = {}
    for mount in mounts:
        source, _, rest = str(mount).partition(":")
        target, _, flags = rest.partition(":")
        target = target or source
        words = [flag for flag in flags.split("+") if flag]
        if not (source.startswith("/") and target.startswith("/")) or target.rstrip("/") == "":
            problems.append(_problem(mount, "is not a mount", "write SOURCE[:TARGET[:FLAGS]] with absolute paths"))
        elif _UNSAFE & set(mount):
            problems.append(_problem(mount, "contains a space, quote, $ or #", "mount a parent directory"))
        elif target in targets:
            problem = f"has the same target as {targets[target]!r}"
            problems.append(_problem(mount, problem, "mount one of them elsewhere"))
        else:
            problems += _flag_problems(mount, words)
            targets[target] = mount
            lines.append(f"{source} {target} none {','.join([_DEFAULT, *words])}")
    return lines, problems
