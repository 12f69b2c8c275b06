"""Journals of other hosts in one place, each in a directory of its own: what is closed, and what is taken away.

A host that floods loses its own entries first: whatever there is too much of is taken from whoever has the most. Runs
on the receiving host's own python3 (3.9, standard library only).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CURRENT", "Journal", "closed_name", "excess_bytes", "host_of", "read_store", "settle", "size_bytes"]

# The file of a host that is written to.
CURRENT = "remote.journal"
_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_-]|\.(?=[a-z0-9_]))*")
_LONGEST_HOST = 120
# Twice what systemd gives to a journal with nothing in it.
SMALLEST = 16 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Journal(NamedTuple):
    """A journal: whose it is ('' for those of before each host had a directory), where, how large, last written when.

    The moment is one of this host's clock: what entries say of themselves is in the hands of who sends them.
    """

    host: str
    path: str
    size: int
    written_s: float
    closed: bool


def size_bytes(text: str) -> int:
    """Return a size as systemd writes it, such as 20G, in bytes.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    if not found:
        message = f"{text!r} is no size such as 64M or 20G"
        raise ValueError(message)
    return int(found[1]) * _UNITS[found[2]]


def host_of(certificate: dict[str, object] | None) -> str:
    """Return the host that a certificate, as Python's ssl tells it, was made for; '' when it names none.

    It becomes the name of a directory, so that only what is the name of a host and nothing else will do.
    """
    fields = (certificate or {}).get("subject") or ()
    names = [value for part in fields for key, value in part if key == "commonName"]  # type: ignore[attr-defined]
    further = (certificate or {}).get("subjectAltName") or ()
    names += [value for kind, value in further if kind == "DNS"]  # type: ignore[attr-defined]
    name = str(names[0]).lower() if names else ""
    return name if len(name) <= _LONGEST_HOST and _HOST.fullmatch(name) else ""


def closed_name(born_s: float, number: int) -> str:
    """Return the name of a journal that is closed here, as vacuuming knows it."""
    return f"remote@{int(born_s * 1_000_000):016x}-{number:016x}.journal~"


def _journal(host: str, place: Path) -> Journal | None:
    """Return a file of the store as a journal; None when it is none."""
    if not place.name.endswith((".journal", ".journal~")):
        return None
    try:
        status = place.lstat()
    except FileNotFoundError:  # its writer has just closed it under another name
        return None
    return Journal(host, str(place), status.st_blocks * 512, status.st_mtime, "@" in place.name)


def read_store(store: Path) -> list[Journal]:
    """Return all journals of a store."""
    found: list[Journal | None] = []
    for entry in os.scandir(store):
        place = Path(entry.path)
        if entry.is_dir(follow_symlinks=False) and host_of({"subject": ((("commonName", entry.name),),)}):
            found += [_journal(entry.name, inner) for inner in place.iterdir()]
        elif entry.is_file(follow_symlinks=False):
            found.append(_journal("", place))
    return [journal for journal in found if journal]


def excess_bytes(journals: Iterable[Journal], free: int, max_use: int, keep_free: int) -> int:
    """Return how much must go, so that all take no more than `max_use` and `keep_free` of the file system is free."""
    return max(sum(journal.size for journal in journals) - max_use, keep_free - free, 0)


def settle(journals: Sequence[Journal], excess: int, oldest_s: float) -> tuple[list[Journal], list[Journal]]:
    """Return the journals to take away, and those to close so that they can be taken away the next time.

    Those too old go in any case; then, of whoever has the most, the oldest. Where that host has only the one that is
    written to, that is closed, rather than that another host should lose something.

    Args:
        journals: all of the store.
        excess: how many bytes must go.
        oldest_s: what was last written to before this moment is too old.
    """
    gone = [journal for journal in journals if journal.closed and journal.written_s < oldest_s]
    left = [journal for journal in journals if journal not in gone]
    excess -= sum(journal.size for journal in gone)
    use: dict[str, int] = {}
    # What can be done about each host, the best last: its closed ones by age, before that what is written to.
    steps: dict[str, list[Journal]] = {}
    for journal in sorted(left, key=lambda journal: (journal.closed, -journal.written_s)):
        use[journal.host] = use.get(journal.host, 0) + journal.size
        # Hardly larger than an empty one, it would be closed again and again.
        if journal.closed or journal.size > SMALLEST:
            steps.setdefault(journal.host, []).append(journal)
    close: list[Journal] = []
    while excess > 0 and any(steps.values()):
        host = max((host for host in steps if steps[host]), key=lambda host: use[host])
        journal = steps[host].pop()
        (gone if journal.closed else close).append(journal)
        use[host] -= journal.size
        excess -= journal.size
    return gone, close
