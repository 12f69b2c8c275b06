"""Look up the users and groups of a host in all its sources (NSS)."""

from __future__ import annotations

import grp
import pwd
from contextlib import suppress

__all__ = ["known_groups", "known_users"]


def known_users(names: list[str], uids: list[int]) -> dict[str, pwd.struct_passwd]:
    """Return the users with these names or UIDs.

    Each is also looked up separately, because some directory services do not enumerate users.
    """
    known = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_name in names or entry.pw_uid in uids}
    for name in names:
        with suppress(KeyError):
            known.setdefault(name, pwd.getpwnam(name))
    for uid in uids:
        with suppress(KeyError, OverflowError):
            entry = pwd.getpwuid(uid)
            known.setdefault(entry.pw_name, entry)
    return known


def known_groups(names: list[str], gids: list[int]) -> dict[str, grp.struct_group]:
    """Return the groups that the host enumerates, and those with these names or GIDs."""
    known = {entry.gr_name: entry for entry in grp.getgrall()}
    for name in names:
        with suppress(KeyError):
            known.setdefault(name, grp.getgrnam(name))
    for gid in gids:
        with suppress(KeyError, OverflowError):
            entry = grp.getgrgid(gid)
            known.setdefault(entry.gr_name, entry)
    return known
