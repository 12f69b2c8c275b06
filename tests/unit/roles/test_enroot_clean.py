"""Tests of the program that removes unused containers of Enroot; a timer runs it as root."""

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
    """A node with the containers of a user."""

    def __init__(self, folder: Path, days: int, gib: int) -> None:
        """Create the user's folder, the program and its configuration."""
        folder.chmod(0o755)
        self.folder, self.home = folder, folder / "enroot" / "data" / f"user-{USER}"
        self.home.mkdir(parents=True)
        self.home.chmod(0o700)
        os.chown(self.home, USER, USER)
        shutil.copy(PROGRAM, folder / "enroot_clean")
        declared = f"path='{folder}/enroot'\ndays={days}\ngib={gib}\n"
        (folder / "enroot_directories.conf").write_text(declared, encoding="utf-8")

    def container(self, name: str, age: float) -> Path:
        """Create a container that was last started `age` days ago and contains an unreadable directory."""
        root = self.home / name
        (root / "closed" / "deep").mkdir(parents=True)
        for path in (root / "closed" / "deep", root / "closed", root):
            os.chown(path, USER, USER)
        (root / "closed").chmod(0)
        os.utime(root, (time.time() - age * DAY,) * 2)
        return root

    def fill(self, name: str, age: float, mib: int) -> None:
        """Create a container that uses `mib` MiB of the disk."""
        root = self.container(name, age)
        with (root / "file").open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, mib * 2**20)
        os.chown(root / "file", USER, USER)
        os.utime(root, (time.time() - age * DAY,) * 2)

    def clean(self) -> list[str]:
        """Run the program; return the names of the remaining containers."""
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


def test_running_container_is_kept() -> None:
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


def test_zero_days_keep_all_containers() -> None:
    with made(0) as node:
        node.container("old", 4000)
        assert node.clean() == ["old"]


def test_links_and_trees_that_the_user_may_not_remove_are_kept() -> None:
    with made() as node:
        victim = node.folder / "victim"
        victim.mkdir()
        (victim / "file").touch()
        os.utime(victim, (0, 0))
        (node.home / "link").symlink_to(victim)
        inner = node.container("old", 31)
        (inner / "link").symlink_to(victim)
        os.utime(inner, (0, 0))
        # A tree of root in the user's folder: the user may not remove its files.
        kept = node.home / "of-root"
        (kept / "sub").mkdir(parents=True)
        (kept / "sub" / "file").touch()
        os.utime(kept, (0, 0))
        assert node.clean() == ["link", "of-root"]
        assert (victim / "file").exists()
        assert (kept / "sub" / "file").exists()


def test_folder_of_another_owner_is_skipped() -> None:
    with made() as node:
        node.container("old", 31)
        os.chown(node.home, USER + 1, USER + 1)
        assert node.clean() == ["old"]


@pytest.mark.parametrize(
    ("gib", "left"),
    [(0, ["a", "b", "c"]), (2, ["a", "b", "c"]), (1, ["b", "c"])],
    ids=["no limit", "enough", "too much"],
)
def test_over_the_limit_of_a_user_the_oldest_container_is_removed(gib: int, left: list[str]) -> None:
    with made(0, gib) as node:
        node.fill("b", 1, 500)
        node.fill("a", 3, 500)
        node.fill("c", 2, 500)
        assert node.clean() == left
