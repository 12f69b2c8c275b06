"""Find conflicts between directory users and local or declared users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.problems import make_problem
from .accounts import declared_groups, is_local, is_present

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ..common.problems import Problem

__all__ = ["Holder", "clashes", "declared_holders", "local_holders"]


class Holder(NamedTuple):
    """A user or group; `place` is a file, an option or the directory that defines it."""

    kind: str
    name: str
    number: int
    place: str


def local_holders(path: Path, kind: str) -> list[Holder]:
    """Return the users in /etc/passwd or the groups in /etc/group."""
    rows = [line.split(":") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    return [Holder(kind, row[0], int(row[2]), str(path)) for row in rows if row[2:] and row[2].isdecimal()]


def declared_holders(users: list[dict[str, Any]], groups: list[dict[str, Any]]) -> list[Holder]:
    """Return the declared users and groups with state present."""
    return [
        *(Holder("user", user["name"], int(user["uid"]), "users_accounts") for user in filter(is_local, users)),
        *(
            Holder("group", group["name"], int(group["gid"]), "users_groups")
            for group in filter(is_present, declared_groups(users, groups))
        ),
    ]


def clashes(host: str, local: Iterable[Holder], directory: Sequence[Holder], min_id: int) -> list[Problem]:
    """Return the names, UIDs and GIDs in the directory that the host or the declaration also uses.

    Args:
        host: name of the host.
        local: users and groups of the host and the declaration.
        directory: users and groups of the directory.
        min_id: lower UIDs and GIDs in the directory are ignored.
    """
    seen = [holder for holder in directory if holder.number >= min_id]
    by_name = {(holder.kind, holder.name): holder for holder in seen}
    by_number: dict[tuple[str, int], Holder] = {(holder.kind, holder.number): holder for holder in seen}
    found: dict[tuple[str, str], Problem] = {}
    for holder in local:
        word = "uid" if holder.kind == "user" else "gid"
        same = by_name.get((holder.kind, holder.name))
        other = by_number.get((holder.kind, holder.number))
        if same:
            problem = (
                f"{holder.kind} {holder.name} is in {holder.place} with {word} {holder.number} "
                f"and in {same.place} with {word} {same.number}"
            )
            found.setdefault(
                (holder.kind, holder.name),
                make_problem([host], "identity_source", problem, "rename one of them, or remove it from one place"),
            )
        elif other:
            problem = (
                f"{word} {holder.number} belongs to {holder.kind} {holder.name} in {holder.place} "
                f"and to {other.name} in {other.place}"
            )
            found.setdefault(
                (holder.kind, holder.name),
                make_problem([host], "identity_source", problem, "change the number of one of them"),
            )
    return list(found.values())
