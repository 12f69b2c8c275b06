# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Common parts of all phases of the storage check: the rank of this node, its files, and its output."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

DATA = 1 << 20
SWAP = 1 << 16
WORD = 16
# Files per node, including the two temporary files of a rename.
NODE_BYTES = 4 * DATA
POLL_S = 0.05
SWEEP_S = 3.0
LONGEST_ERROR = 200
FOLDER = ".busbar-storage-"
FILES = ("data", "swap", "swap.new", "lock", "turn", "answer", "fio")


def words(exc: Exception) -> str:
    """Return a short description of an error."""
    text = exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)
    return " ".join(f"{text}".split())[:LONGEST_ERROR]


def mount_of(path: Path) -> dict[str, str]:
    """Return the mount point, type and source of a path's mount, and whether its locks are local to this node."""
    real = str(path.resolve())
    best: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), left.split()[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best.get("mount", "")):
            kind, _, source = right.partition(" ")
            best = {"mount": point, "type": kind, "source": source.split(" ")[0], "line": line}
    local = re.search(r"\b(nolock|local_lock=(all|posix))\b", best.pop("line", ""))
    best["locks"] = "local" if local else ""
    return {key: value[:LONGEST_ERROR] for key, value in best.items()}


class Rank:
    """One node of the check."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        """Read the rank and the world size."""
        self.chosen = chosen
        self.rank = int(os.environ.get("SLURM_PROCID", "0"))
        self.ranks = int(os.environ.get("SLURM_NTASKS", "1"))
        self.node = os.environ.get("SLURMD_NODENAME") or platform.node().split(".")[0]
        self.folder: Path = chosen.path / f"{FOLDER}{chosen.token}"

    def say(self, check: str, **found: Any) -> None:  # noqa: ANN401 - JSON values
        """Print an observation immediately, as one line that is short enough for srun not to interleave it."""
        line = json.dumps({"check": check, "rank": self.rank, "node": self.node, **found})
        sys.stdout.write(f"busbar-storage {line}\n")
        sys.stdout.flush()

    def file(self, name: str, rank: int | None = None) -> Path:
        """Return the path of a file of a rank, by default of this rank."""
        return self.folder / f"{name}-{self.rank if rank is None else rank}"

    def content(self, rank: int, version: int, size: int) -> bytes:
        """Return the expected content of a rank's file: a readable version, and unique bytes."""
        head = f"{rank} {version}\n".encode()
        return head + hashlib.shake_256(self.chosen.token.encode() + head).digest(size - len(head))

    def look(self, name: str, rank: int, size: int) -> tuple[str, int]:
        """Return the state of a rank's file (ok, missing, wrong or an error) and its version, or -1 if unknown."""
        try:
            with self.file(name, rank).open("rb") as file:
                data = file.read()
        except FileNotFoundError:
            return "missing", -1
        except OSError as exc:
            return "handle" if exc.errno == errno.ESTALE else words(exc), -1
        head = re.match(rb"(\d{1,9}) (\d{1,9})\n", data)
        version = int(head[2]) if head else -1
        return ("ok" if head and data == self.content(rank, version, size) else "wrong"), version

    def room(self, needed: int) -> bool:
        """Report the free space, and return whether it is at least `needed` bytes."""
        stat = os.statvfs(self.folder)
        free = stat.f_bavail * stat.f_frsize
        self.say("room", free=free, needed=needed)
        return free >= needed

    def clean(self) -> None:
        """Remove this rank's files, and the folder if it is empty."""
        for path in [*(self.file(name) for name in FILES), self.folder / "tree"]:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def sweep(self) -> None:
        """Remove the remaining files of all nodes; retry for nodes that are still stopping."""
        until = time.monotonic() + SWEEP_S
        while self.folder.is_dir() and not self.folder.is_symlink():
            shutil.rmtree(self.folder, ignore_errors=True)
            if time.monotonic() > until:
                self.say("problem", phase="sweep", error=f"cannot remove {self.folder}")
                return
            time.sleep(POLL_S)
