"""Compare declared quotas of home directories with the quotas on the file system.

Used by the quota program on the file server and by preflight.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "NONE",
    "Found",
    "Limit",
    "QuotaError",
    "Steps",
    "decide",
    "file_system",
    "file_system_fault",
    "is_size",
    "limit_of",
    "parse_report",
    "run_tool",
    "setquota_input",
]

_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
_TIMEOUT_S = 300
_MIB = 1 << 10
_UNITS_KIB = {"M": _MIB, "G": 1 << 20, "T": 1 << 30}
_SIZE = re.compile(r"([1-9][0-9]{0,9})([MGT])")
_UNLIMITED = "none"
# Mount options that enable user quotas (mount(8), xfs(5)); XFS with `uqnoenforce` only counts usage.
_SWITCHES = {"xfs": {"usrquota", "uquota", "quota"}, "ext4": {"usrquota", "quota"}}
_REPORT = ("User", "BlockSoftLimit", "BlockHardLimit", "FileSoftLimit", "FileHardLimit")


class QuotaError(Exception):
    """Quotas could not be read or set; the message has the reason and the remedy."""


class Limit(NamedTuple):
    """Limits of a user in KiB: `soft` may be exceeded for a week, `hard` never. 0 means unlimited."""

    soft: int
    hard: int


NONE = Limit(0, 0)


class Found(NamedTuple):
    """Current limits of a user: blocks and number of files. busbar does not change the latter."""

    limit: Limit
    files: Limit


class Steps(NamedTuple):
    """Limits to set, limits that an administrator set by other means, and declared names without a home."""

    limits: dict[int, Limit]
    kept: dict[int, Limit]
    unknown: list[str]


def is_size(text: str) -> bool:
    """Return whether `limit_of` accepts a size."""
    return text == _UNLIMITED or bool(_SIZE.fullmatch(text))


def limit_of(size: str, soft_percent: int) -> Limit:
    """Return the limit for a size such as 200G, or `none`.

    Both limits are whole MiB: file systems round to blocks, and a rounded limit would look like a manual change.

    Raises:
        ValueError: the text is not a size.
    """
    if size == _UNLIMITED:
        return NONE
    found = _SIZE.fullmatch(size)
    if not found:
        message = f"{size!r} is not a size"
        raise ValueError(message)
    hard = int(found[1]) * _UNITS_KIB[found[2]]
    return Limit(max(hard * soft_percent // 100 // _MIB * _MIB, _MIB), hard)


def file_system_fault(kind: str, options: Iterable[str], target: str) -> tuple[str, str] | None:
    """Return why a file system has no user quotas, and the remedy; None if it has them.

    Args:
        kind: file system type, such as `xfs`.
        options: mount options.
        target: mount point.
    """
    given = set(options)
    if kind not in _SWITCHES:
        remedy = "put the homes on XFS or ext4, or remove home_quota_default and set quotas on the file server"
        return f"{target} is {kind}, whose quotas are not supported", remedy
    if "uqnoenforce" in given:
        return f"{target} measures usage but does not enforce limits (uqnoenforce)", f"mount {target} with usrquota"
    if given & _SWITCHES[kind]:
        return None
    how = "then unmount and mount it (reboot for /), because a remount does not enable quotas on XFS"
    how = how if kind == "xfs" else f"then mount -o remount {target}, quotacheck -cum {target}, quotaon {target}"
    return f"{target} is mounted without user quotas", f"add usrquota to its options in /etc/fstab; {how}"


def run_tool(command: Sequence[str], text: str = "") -> str:
    """Return the output of a tool.

    Raises:
        QuotaError: the tool cannot be started, times out or fails.
    """
    try:
        done = subprocess.run(  # noqa: S603 - tools of the package quota
            command, input=text, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, env=_ENVIRONMENT
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        message = f"{shlex.join(command)}: {exc}"
        raise QuotaError(message) from exc
    if done.returncode:
        message = f"{shlex.join(command)} exited with status {done.returncode}: {' '.join(done.stderr.split())}"
        raise QuotaError(message)
    return done.stdout


def file_system(path: str) -> str:
    """Return the mount point of the file system of a directory, which need not exist yet.

    Raises:
        QuotaError: the file system has no user quotas; the message includes a remedy.
    """
    there = next(place for place in (Path(path), *Path(path).parents) if place.is_dir())
    output = run_tool(["findmnt", "--json", "--output", "TARGET,FSTYPE,OPTIONS", "--target", str(there)])
    found = json.loads(output)["filesystems"][0]
    fault = file_system_fault(found["fstype"], found["options"].split(","), found["target"])
    if fault:
        raise QuotaError("; ".join(fault))
    return str(found["target"])


def parse_report(text: str) -> dict[int, Found]:
    """Return the current limits of each UID from the output of `repquota -u -n -O csv`.

    Raises:
        ValueError: the text is not a table of repquota.
    """
    lines = text[text.find("User,") :].splitlines() if "User," in text else []
    found = {}
    for row in csv.DictReader(lines):
        user, soft, hard, *files = (row.get(key) or "" for key in _REPORT)
        if not user.startswith("#") or not user[1:].isdigit():
            message = f"{user!r} is not a UID"
            raise ValueError(message)
        found[int(user[1:])] = Found(Limit(int(soft), int(hard)), Limit(*map(int, files)))
    if not lines:
        message = f"repquota printed no table: {text.strip()[:200]!r}"
        raise ValueError(message)
    return found


def decide(
    owners: Mapping[int, str],
    found: Mapping[int, Found],
    made: Mapping[int, Sequence[Limit]],
    default: Limit | None,
    declared: Mapping[str, Limit],
) -> Steps:
    """Return the limits to change.

    Limits that an administrator set by other means stay, unless the user is declared by name.

    Args:
        owners: UIDs with a home directory and their names; '' for a UID without a name.
        found: current limits; a missing UID is unlimited.
        made: limits that busbar set in earlier runs, including killed ones.
        default: limit for users that are not declared; None for no default.
        declared: limits by user name.
    """
    limits, kept = {}, {}
    for number, name in owners.items():
        now = found[number].limit if number in found else NONE
        if name in declared:
            wanted = declared[name]
        elif default is None:
            wanted = NONE if now in made.get(number, ()) else now
        elif now in (NONE, *made.get(number, ())):
            wanted = default
        else:
            kept[number] = now
            continue
        if wanted != now:
            limits[number] = wanted
    unknown = sorted(set(declared) - set(owners.values()))
    return Steps(limits, kept, unknown)


def setquota_input(limits: Mapping[int, Limit], found: Mapping[int, Found]) -> str:
    """Return the input of `setquota -b`: UID, block limits in KiB, and the unchanged file limits."""
    files = {number: entry.files for number, entry in found.items()}
    return "".join(
        "{} {} {} {} {}\n".format(number, *limit, *files.get(number, NONE)) for number, limit in sorted(limits.items())
    )
