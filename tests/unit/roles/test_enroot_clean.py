"""Which containers of Enroot are removed after some days: the program that root's timer starts."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from busbar.paths import collection

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = collection() / "roles/enroot/files/usr/local/lib/busbar/enroot_clean"
USER = 54321
DAY = 86400
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root acts for other users")


class Node:
    """A node with containers of a user."""

    def __init__(self, folder: Path, days: int, gib: int) -> None:
        """Make it."""
        folder.chmod(0o755)
        self.folder, self.home = folder, folder / "enroot" / "data" / f"user-{USER}"
        self.home.mkdir(parents=True)
        self.home.chmod(0o700)
        os.chown(self.home, USER, USER)
        shutil.copy(PROGRAM, folder / "enroot_clean")
        declared = f"path='{folder}/enroot'\ndays={days}\ngib={gib}\n"
        (folder / "enroot_directories.conf").write_text(declared, encoding="utf-8")

    def container(self, name: str, age: float) -> Path:
        """One that was last started some days ago; a directory in it nobody may read."""
        root = self.home / name
        (root / "closed" / "deep").mkdir(parents=True)
        for path in (root / "closed" / "deep", root / "closed", root):
            os.chown(path, USER, USER)
        (root / "closed").chmod(0)
        os.utime(root, (time.time() - age * DAY,) * 2)
        return root

    def fill(self, name: str, age: float, mib: int) -> None:
        """One that takes so much of the disk."""
        root = self.container(name, age)
        with (root / "file").open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, mib * 2**20)
        os.chown(root / "file", USER, USER)
        os.utime(root, (time.time() - age * DAY,) * 2)

    def clean(self) -> list[str]:
        """Run it; the names of what is left."""
        subprocess.run(["bash", str(self.folder / "enroot_clean")], check=True, timeout=60, capture_output=True)
        return sorted(path.name for path in self.home.iterdir())


@contextlib.contextmanager
def made(days: int = 30, gib: int = 0) -> Iterator[Node]:
    with tempfile.TemporaryDirectory() as folder:
        yield Node(Path(folder), days, gib)


def test_only_unused_containers_are_removed() -> None:
    with made() as node:
        node.container("old", 31)
        node.container("pyxis_busbar-7", 400)
        node.container("new", 29)
        assert node.clean() == ["new"]


def test_a_container_that_runs_stays() -> None:
    with made() as node:
        root = node.container("old", 31)
        code = "import os, sys, time; os.chroot(sys.argv[1]); time.sleep(60)"
        running = subprocess.Popen([sys.executable, "-c", code, str(root)])
        try:
            deadline = time.monotonic() + 20
            inside = Path(f"/proc/{running.pid}/root")
            while inside.stat().st_ino != root.stat().st_ino and time.monotonic() < deadline:
                time.sleep(0.05)
            assert node.clean() == ["old"]
        finally:
            running.kill()
            running.wait()
        assert node.clean() == []


def test_0_days_keep_all() -> None:
    with made(0) as node:
        node.container("old", 4000)
        assert node.clean() == ["old"]


def test_what_a_user_laid_there_to_have_root_remove_it_stays() -> None:
    with made() as node:
        victim = node.folder / "victim"
        victim.mkdir()
        (victim / "file").touch()
        os.utime(victim, (0, 0))
        (node.home / "link").symlink_to(victim)
        inner = node.container("old", 31)
        (inner / "link").symlink_to(victim)
        os.utime(inner, (0, 0))
        # Root's own among the user's: the user has no right to remove what is in it.
        kept = node.home / "of-root"
        (kept / "sub").mkdir(parents=True)
        (kept / "sub" / "file").touch()
        os.utime(kept, (0, 0))
        assert node.clean() == ["link", "of-root"]
        assert (victim / "file").exists()
        assert (kept / "sub" / "file").exists()


def test_a_folder_that_is_not_of_its_user_is_not_looked_at() -> None:
    with made() as node:
        node.container("old", 31)
        os.chown(node.home, USER + 1, USER + 1)
        assert node.clean() == ["old"]


@pytest.mark.parametrize(
    ("gib", "left"),
    [(0, ["a", "b", "c"]), (2, ["a", "b", "c"]), (1, ["b", "c"])],
    ids=["no limit", "enough", "too much"],
)
def test_beyond_the_share_of_a_user_what_was_started_longest_ago_goes(gib: int, left: list[str]) -> None:
    with made(0, gib) as node:
        node.fill("b", 1, 500)
        node.fill("a", 3, 500)
        node.fill("c", 2, 500)
        assert node.clean() == left
