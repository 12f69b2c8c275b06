"""How much each home may hold: what is declared, what the file system has, and what is to be set.

For the program of the file server and for the preflight.
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
# mount(8): what switches the quotas of users on; xfs(5) knows the second and third as well, `noenforce` only counts.
_SWITCHES = {"xfs": {"usrquota", "uquota", "quota"}, "ext4": {"usrquota", "quota"}}
_REPORT = ("User", "BlockSoftLimit", "BlockHardLimit", "FileSoftLimit", "FileHardLimit")


class QuotaError(Exception):
    """Nothing was changed; the message says why and what to do."""


class Limit(NamedTuple):
    """What a user's files may take, in KiB; from `soft` on for a week, beyond `hard` never. 0 is no limit."""

    soft: int
    hard: int


NONE = Limit(0, 0)


class Found(NamedTuple):
    """What is in force for a user: of room, and of the number of files, which is nobody's business here."""

    limit: Limit
    files: Limit


class Steps(NamedTuple):
    """What is to be set, what users have of whom somebody else has set it, and declared names that nobody has."""

    limits: dict[int, Limit]
    kept: dict[int, Limit]
    unknown: list[str]


def is_size(text: str) -> bool:
    """Return whether `limit_of` can read a size."""
    return text == _UNLIMITED or bool(_SIZE.fullmatch(text))


def limit_of(size: str, soft_percent: int) -> Limit:
    """Return the limit of a size such as 200G, or of `none`.

    Both are whole MiB: a file system rounds to its blocks, and what it rounded would look like somebody else's limit.

    Raises:
        ValueError: the text is neither.
    """
    if size == _UNLIMITED:
        return NONE
    found = _SIZE.fullmatch(size)
    if not found:
        message = f"{size!r} is no size"
        raise ValueError(message)
    hard = int(found[1]) * _UNITS_KIB[found[2]]
    return Limit(max(hard * soft_percent // 100 // _MIB * _MIB, _MIB), hard)


def file_system_fault(kind: str, options: Iterable[str], target: str) -> tuple[str, str] | None:
    """Return why a file system has no quotas of users, and what to do about it.

    Args:
        kind: such as `xfs`.
        options: those with which it is mounted.
        target: where it is mounted.
    """
    given = set(options)
    if kind not in _SWITCHES:
        remedy = "put the homes on XFS or ext4, or leave home_quota_default out and set quotas where the files are"
        return f"{target} is {kind}, whose quotas are not known here", remedy
    if "uqnoenforce" in given:
        return f"{target} counts what users take, and limits nothing (uqnoenforce)", f"mount {target} with usrquota"
    if given & _SWITCHES[kind]:
        return None
    how = "xfs takes it at its first mount alone: umount and mount it, or reboot for /"
    how = how if kind == "xfs" else f"then mount -o remount {target}, quotacheck -cum {target}, quotaon {target}"
    return f"{target} is mounted without quotas of users", f"add usrquota to its options in /etc/fstab; {how}"


def run_tool(command: Sequence[str], text: str = "") -> str:
    """Return what a tool prints.

    Raises:
        QuotaError: it cannot be started, takes too long or fails.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the tools of the package quota
            command, input=text, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, env=_ENVIRONMENT
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        message = f"{shlex.join(command)}: {exc}"
        raise QuotaError(message) from exc
    if done.returncode:
        message = f"{shlex.join(command)} ended with {done.returncode}: {' '.join(done.stderr.split())}"
        raise QuotaError(message)
    return done.stdout


def file_system(path: str) -> str:
    """Return where the file system of a directory, which may be yet to come, is mounted.

    Raises:
        QuotaError: it has no quotas of users; with a remedy.
    """
    there = next(place for place in (Path(path), *Path(path).parents) if place.is_dir())
    said = run_tool(["findmnt", "--json", "--output", "TARGET,FSTYPE,OPTIONS", "--target", str(there)])
    found = json.loads(said)["filesystems"][0]
    fault = file_system_fault(found["fstype"], found["options"].split(","), found["target"])
    if fault:
        raise QuotaError("; ".join(fault))
    return str(found["target"])


def parse_report(text: str) -> dict[int, Found]:
    """Return what is in force for each user, from `repquota -u -n -O csv`.

    Raises:
        ValueError: it is something else.
    """
    lines = text[text.find("User,") :].splitlines() if "User," in text else []
    found = {}
    for row in csv.DictReader(lines):
        user, soft, hard, *files = (row.get(key) or "" for key in _REPORT)
        if not user.startswith("#") or not user[1:].isdigit():
            message = f"{user!r} is not the number of a user"
            raise ValueError(message)
        found[int(user[1:])] = Found(Limit(int(soft), int(hard)), Limit(*map(int, files)))
    if not lines:
        message = f"repquota said {text.strip()[:200]!r}, and no table"
        raise ValueError(message)
    return found


def decide(
    owners: Mapping[int, str],
    found: Mapping[int, Found],
    made: Mapping[int, Sequence[Limit]],
    default: Limit | None,
    declared: Mapping[str, Limit],
) -> Steps:
    """Return what is to be set.

    What somebody else has set for a user stays, unless the user is declared by name.

    Args:
        owners: names of those who have a home, by number; '' where a number has no name.
        found: limits in force; who is not named has none.
        made: limits that were set here before, and those that a run began to set that died.
        default: that of everybody who is not declared; None where there is none.
        declared: limits by name.
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
    """Return what `setquota -b` reads: number, soft and hard limit of blocks of 1 KiB, those of files as they are."""
    files = {number: entry.files for number, entry in found.items()}
    return "".join(
        "{} {} {} {} {}\n".format(number, *limit, *files.get(number, NONE)) for number, limit in sorted(limits.items())
    )
