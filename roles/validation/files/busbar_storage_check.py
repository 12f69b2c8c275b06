#!/usr/bin/python3 -B
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks a shared directory tree from one node and prints one JSON object per observation.

Run it on all nodes at once, one phase after another; each phase must end before the next one starts:
srun --ntasks-per-node=1 busbar_storage_check.py --path /shared --phase write
Each node checks a limited number of other nodes, so the work per node does not depend on the size of the cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from busbar_storage_rank import DATA, LONGEST_ERROR, NODE_BYTES, POLL_S, SWAP, WORD, mount_of, words
from busbar_storage_speed import Speed

if TYPE_CHECKING:
    from collections.abc import Callable

SWAPS = 20
STOPPED_S = 1.0
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """Return the number of bytes for a size such as 8, 64K, 16M or 1G."""
    number, unit = (text[:-1], text[-1].upper()) if text and not text[-1].isdigit() else (text, "")
    if unit not in UNITS or not number.isdigit():
        message = f"{text!r} is not a valid size: use a number such as 8, 64K, 16M or 1G"
        raise argparse.ArgumentTypeError(message)
    return int(number) * UNITS[unit]


def options() -> argparse.Namespace:
    """Return the parsed options."""
    arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arg.add_argument("--path", type=Path, required=True, help="a folder that all nodes share")
    arg.add_argument("--phase", choices=[*PHASES, "sweep"], required=True)
    arg.add_argument("--size", type=size, default=1 << 30, help="bytes that each node writes and reads for the speed")
    arg.add_argument("--seconds", type=int, default=10, help="maximum time for writing, and for reading, in seconds")
    arg.add_argument("--patience", type=float, default=15, help="timeout for a neighbour, in seconds")
    chosen = arg.parse_args()
    # Not an argument, because other users of the node could see it and create the folder with that name first.
    chosen.token = os.environ.get("BUSBAR_STORAGE_TOKEN", "")
    if not re.fullmatch(r"[0-9A-Za-z]{8,64}", chosen.token):
        arg.error("BUSBAR_STORAGE_TOKEN must be 8 to 64 random letters and digits")
    return chosen


def partners(rank: int, ranks: int) -> list[int]:
    """Return the ranks that a rank checks: its neighbours, and two distant ranks in case neighbours fail."""
    found = [(rank + step) % ranks for step in (1, 2, ranks // 3, ranks // 2)]
    return [other for other in dict.fromkeys(found) if other != rank]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in place and sync it to the server."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


class Check(Speed):
    """Checks whether a tree is shared and consistent."""

    def write(self) -> None:
        """Create the files that the other ranks check."""
        self.say("mount", **mount_of(self.chosen.path))
        error = "no room"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if self.room(self.ranks * NODE_BYTES):
                self.claim_tree()
                write_whole(self.file("data"), self.content(self.rank, 1, DATA))
                write_whole(self.file("swap"), self.content(self.rank, 0, SWAP))
                for name in ("lock", "turn", "answer"):
                    write_whole(self.file(name), b" " * WORD)
                error = ""
        except OSError as exc:
            error = f"{exc.filename or self.folder}: {words(exc)}"[:LONGEST_ERROR]
        self.say("write", ok=not error, error=error)
        if not error:
            self.own_back()

    def own_back(self) -> None:
        """Read back this rank's file, bypassing the page cache if possible."""
        with contextlib.suppress(OSError), self.file("data").open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        result, _version = self.look("data", self.rank, DATA)
        self.say("back", result=result)

    def claim_tree(self) -> None:
        """Create the name file of the tree; of all nodes that see the same tree, only the first one succeeds."""
        with contextlib.suppress(FileExistsError):
            handle = os.open(self.folder / "tree", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, f"{self.rank}".encode())
                os.fsync(handle)
            finally:
                os.close(handle)

    def read(self) -> None:
        """Check the name of the tree and the files of other ranks."""
        try:
            tree = (self.folder / "tree").read_text(encoding="ascii")[:9]
        except (OSError, ValueError) as exc:
            tree = ""
            self.say("problem", phase="read", error=words(exc))
        self.say("tree", tree=int(tree) if tree.isdigit() else None)
        self.see(1)

    def see(self, version: int) -> None:
        """Check that the files of other ranks have this version; an older version is stale."""
        for other in partners(self.rank, self.ranks):
            self.see_one("data", other, version, DATA)

    def see_one(self, name: str, other: int, version: int, size: int) -> None:
        """Check a file of another rank."""
        result, found = self.look(name, other, size)
        if result == "ok" and found != version:
            result = "stale"
        self.say("see", file=name, peer=other, version=version, result=result, found=found)

    def rename(self) -> None:
        """Replace this rank's file repeatedly while checking that a neighbour's file is always complete."""
        counts = {"reads": 0, "missing": 0, "wrong": 0, "back": 0, "other": 0}
        seen, began, version = -1, time.monotonic(), 0
        other = (self.rank - 1) % self.ranks
        while version < SWAPS or (self.ranks > 1 and seen < SWAPS and time.monotonic() - began < self.chosen.patience):
            if version < SWAPS:
                version += 1
                fresh = self.file("swap.new")
                write_whole(fresh, self.content(self.rank, version, SWAP))
                fresh.replace(self.file("swap"))
            seen = self.look_at_swap(other, seen, counts)
            if seen < 0 and time.monotonic() - began > self.chosen.patience / 4:
                break
            time.sleep(POLL_S / 2)
        if self.ranks > 1:
            self.say("rename", peer=other, seen=seen, **counts)
        write_whole(self.file("data"), self.content(self.rank, 2, DATA))

    def look_at_swap(self, other: int, seen: int, counts: dict[str, int]) -> int:
        """Read a file once while it is being replaced, count the result, and return the last version seen."""
        result, version = self.look("swap", other, SWAP)
        # An NFS server may remove a file that was replaced between open and read: retry.
        if result == "handle" or self.ranks == 1:
            return seen
        counts["reads"] += 1
        if result == "ok":
            counts["back"] += version < seen
            return max(seen, version)
        counts[result if result in counts else "other"] += 1
        return seen

    def lock(self) -> None:
        """Check the rewritten files, hold a lock that a neighbour must not get, and try to get another rank's lock."""
        self.see(2)
        other = (self.rank - 1) % self.ranks
        if other == self.rank:
            return
        self.see_one("swap", other, SWAPS, SWAP)
        with self.file("lock").open("r+b") as own:
            try:
                fcntl.lockf(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                self.say("lock", peer=other, result="error", error=words(exc))
                return
            self.tell("turn", self.rank, "held")
            result, error = self.try_lock(other)
            # Always hold the lock until the next node has tried to get it.
            self.await_word("answer", self.rank, "tried")
            fcntl.lockf(own, fcntl.LOCK_UN)
            self.tell("turn", self.rank, "released")
        if result == "refused" and not self.get_lock(other):
            result = "never"
        self.say("lock", peer=other, result=result, error=error)

    def try_lock(self, other: int) -> tuple[str, str]:
        """Try to get another rank's lock; return the result (`refused` is correct, `granted` is wrong) and an error."""
        try:
            with self.file("lock", other).open("r+b") as theirs:
                if not self.await_word("turn", other, "held"):
                    return "no-turn", ""
                result = "refused" if not self.is_granted(theirs) else "granted"
                self.tell("answer", other, "tried")
                return result, ""
        except OSError as exc:
            return ("missing" if exc.errno == errno.ENOENT else "error"), words(exc)

    def get_lock(self, other: int) -> bool:
        """Return whether the lock is free after the other rank has released it."""
        self.await_word("turn", other, "released")
        until = time.monotonic() + self.chosen.patience
        with self.file("lock", other).open("r+b") as theirs:
            while time.monotonic() < until:
                if self.is_granted(theirs):
                    return True
                time.sleep(POLL_S)
        return False

    @staticmethod
    def is_granted(file: IO[bytes]) -> bool:
        """Return whether a lock is granted immediately, and release it."""
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno in {errno.EAGAIN, errno.EACCES}:
                return False
            raise
        fcntl.lockf(file, fcntl.LOCK_UN)
        return True

    def tell(self, name: str, rank: int, word: str) -> None:
        """Write a word in place, padded to a fixed length, so that a reader sees either the old or the new word."""
        with self.file(name, rank).open("r+b") as file:
            file.write(word.ljust(WORD).encode())
            file.flush()
            os.fsync(file.fileno())

    def await_word(self, name: str, rank: int, word: str) -> bool:
        """Return whether a word appears in a rank's file within the timeout."""
        until = time.monotonic() + self.chosen.patience
        while time.monotonic() < until:
            # Reopen the file each time, because an NFS client revalidates its cache on open.
            with contextlib.suppress(OSError):
                if self.file(name, rank).read_bytes().strip() == word.encode():
                    return True
            time.sleep(POLL_S)
        return False


PHASES: dict[str, Callable[[Check], None]] = {
    "write": Check.write,
    "read": Check.read,
    "rename": Check.rename,
    "lock": Check.lock,
    "speed-write": Check.speed_write,
    "speed-read": Check.speed_read,
    "clean": Check.clean,
}


def stop(number: int, _frame: object) -> None:
    """Exit with the regular cleanup when a signal arrives."""
    sys.exit(128 + number)


def main() -> int:
    """Run one phase and return the exit code; an interrupted phase removes its files."""
    chosen = options()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    rank = Check(chosen)
    try:
        if chosen.phase == "sweep":
            rank.sweep()
        elif chosen.phase in {"write", "clean"} or rank.file("data").exists():
            PHASES[chosen.phase](rank)
        else:
            rank.say("problem", phase=chosen.phase, error="the file of this node does not exist")
    except SystemExit:
        # The other nodes are stopped at the same time and must not report these files as missing.
        time.sleep(STOPPED_S)
        rank.clean()
        raise
    except (OSError, ValueError) as exc:
        rank.say("problem", phase=chosen.phase, error=words(exc))
    return 0


if __name__ == "__main__":
    sys.exit(main())
