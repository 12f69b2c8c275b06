"""Find the accounts that can read a secret file."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["Place", "readers", "too_open"]

EVERYBODY = "everybody"
# UIDs of regular users; UIDs between the ranges belong to packages (Debian's slurm is 64030), systemd and nobody.
_PEOPLE = (range(1000, 60000), range(65536, 2**32 - 1))


class Place(NamedTuple):
    """Mode, owner and group of a file or directory."""

    mode: int
    uid: int
    gid: int


def readers(
    file: Place,
    folders: Sequence[Place],
    accounts: Mapping[str, tuple[int, int]],
    members: Mapping[int, Collection[str]],
) -> list[str]:
    """Return the accounts that can read a file; root is included only if it owns the file.

    Args:
        file: the file.
        folders: its parent directories; accounts need access to all of them.
        accounts: UID and primary GID of each account.
        members: supplementary members of each group.
    """
    names = {number: name for name, (number, _) in accounts.items()}
    owner = names.get(file.uid, str(file.uid))
    if file.mode & stat.S_IROTH and all(folder.mode & stat.S_IXOTH for folder in folders):
        return [owner, EVERYBODY]
    found = []
    if file.mode & stat.S_IRGRP and all(_enters(folder, file.gid) for folder in folders):
        found = [name for name, (_, group) in accounts.items() if group == file.gid] + [*members.get(file.gid, ())]
    return [owner, *sorted({*found} - {owner, "root"})]


def _enters(folder: Place, group: int) -> bool:
    return bool(folder.mode & (stat.S_IXGRP if folder.gid == group else stat.S_IXOTH))


def too_open(file: Place, who: Sequence[str], accounts: Mapping[str, tuple[int, int]]) -> str:
    """Return why too many accounts can read a secret, or ''.

    Args:
        file: the secret's file.
        who: result of `readers`.
        accounts: UID and primary GID of each account.
    """
    if EVERYBODY in who:
        return "it is readable by all users of the host"
    people = [name for name in who if any(accounts.get(name, (0, 0))[0] in numbers for numbers in _PEOPLE)]
    if people:
        return f"it is readable by users: {', '.join(people)}"
    if file.mode & stat.S_IWOTH:
        return "it is writable by all users of the host"
    return ""
