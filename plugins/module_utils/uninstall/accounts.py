"""Which users and groups an uninstallation takes away; their homes stay."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["HOME", "UID", "Row", "choose_groups", "choose_users", "read_rows", "running_uids"]

Row = list[str]
UID, _GID, HOME = 2, 3, 5
_MEMBERS = 3


def read_rows(path: Path) -> dict[str, Row]:
    """Return the rows of /etc/passwd or /etc/group by name."""
    rows = (line.split(":") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {row[0]: row for row in rows if len(row) > _MEMBERS and row[UID].isdigit()}


def running_uids(proc: Path = Path("/proc")) -> set[int]:
    """Return the numbers of the users who run something."""
    found = set()
    for each in proc.iterdir():
        if each.name.isdigit():
            with contextlib.suppress(OSError):
                found.add(os.stat(each).st_uid)  # noqa: PTH116 - a process may end meanwhile
    return found


def choose_users(
    made: Iterable[str],
    before: Collection[str],
    rows: Mapping[str, Row],
    running: Collection[int],
    owners: Mapping[int, str],
) -> tuple[list[str], dict[str, str]]:
    """Return the users who go, and those who stay although busbar made them, with the reason.

    Args:
        made: users whom busbar or its packages made.
        before: those who were there before.
        rows: of /etc/passwd.
        running: numbers of users who run something.
        owners: the data that stays, by the number of its owner.
    """
    going, kept = [], {}
    for name in sorted(set(made) & rows.keys() - set(before)):
        uid = int(rows[name][UID])
        if uid in running:
            kept[name] = "still runs something; end that and run this again"
        elif uid in owners:
            kept[name] = f"owns {owners[uid]}, which stays"
        else:
            going.append(name)
    return going, kept


def choose_groups(
    made: Iterable[str], before: Collection[str], groups: Mapping[str, Row], users: Mapping[str, Row]
) -> tuple[list[str], dict[str, str]]:
    """Return the groups that go, and those that stay since users who stay are in them."""
    primary = {row[_GID]: name for name, row in users.items()}
    going, kept = [], {}
    for name in sorted(set(made) & groups.keys() - set(before)):
        members = [each for each in groups[name][_MEMBERS].split(",") if each in users]
        if holder := primary.get(groups[name][UID]) or next(iter(members), ""):
            kept[name] = f"{holder} is in it"
        else:
            going.append(name)
    return going, kept
