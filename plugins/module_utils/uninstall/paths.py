"""Restore and remove files, links and directories during uninstallation."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.baseline import BASELINE, SHARED, TOPS
from .host_state import HostBase, copy_of, digest, is_below

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PathsOfHost", "merged", "top_paths"]

BY_HAND = "changed manually since busbar wrote it"


def kind_of(path: Path) -> str:
    """Return 'link', 'directory', 'file', or '' if the path does not exist."""
    if path.is_symlink():
        return "link"
    return "directory" if path.is_dir() else "file" if path.exists() else ""


def same_access(one: Path, other: Path) -> bool:
    """Return whether mode and owner are equal."""
    first, second = one.lstat(), other.lstat()
    return (first.st_mode, first.st_uid, first.st_gid) == (second.st_mode, second.st_uid, second.st_gid)


def content_of(path: Path) -> bytes:
    """Return the content of a file or the target of a link."""
    return os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()


def merged(original: str, last: str, now: str) -> str:
    """Return the original text with all changes made after busbar last wrote the file."""
    before, written, there = original.splitlines(), last.splitlines(), now.splitlines()
    gone = [line for line in written if line not in there]
    # A run that did not finish has already restored the lines of the original.
    added = [line for line in there if line not in written and line not in before]
    lines = [line for line in before if line not in gone] + added
    return "".join(f"{line}\n" for line in lines)


def without_block(text: str, begin: str, end: str) -> str:
    """Return text without a block from Ansible's blockinfile; an unterminated block stays."""
    lines, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.strip() == begin:
            inside = True
        if not inside:
            lines.append(line)
        if line.strip() == end:
            inside = False
    return text if inside else "".join(lines)


def top_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths that are not below another of these paths."""
    found: list[str] = []
    for path in sorted(paths, key=lambda each: Path(each).parts):
        if not found or not is_below(path, [found[-1]]):
            found.append(path)
    return found


class PathsOfHost(HostBase):
    """A host on which files that busbar replaced are restored, and files that it created are removed."""

    def files(self) -> None:
        """Restore and remove all files; directories are removed after the packages."""
        for name, kinds in self.entries.items():
            if name.startswith("/"):
                self.restore_path(name, kinds)
        for item in self.given["blocks"]:
            path = Path(item["path"])
            if path.is_file() and not path.is_symlink():
                text = path.read_text(encoding="utf-8", errors="replace")
                marks = [f"# {word} {item['name']} (Ansible managed)" for word in ("BEGIN", "END")]
                after = without_block(text, *marks)
                if after != text:
                    self.restored.append(str(path))
                    self.write(path, after.encode(), path)
                    if not after.strip() and not copy_of(str(path)).exists() and not self.module.check_mode:
                        path.unlink()

    def restore_path(self, name: str, kinds: Sequence[str]) -> None:
        """Restore one path to its previous state."""
        path, copy = Path(name), copy_of(name)
        now, was = kind_of(path), kind_of(copy)
        if is_below(name, self.given["data"]) or (was == "" and (now == "" or name in self.before)):
            return
        if home := is_below(name, self.homes):
            self.kept.append(f"{name}: in {home}")
            return
        if now == "directory":
            if "tree" in kinds:
                self.removed.append(name)
                if not self.module.check_mode:
                    shutil.rmtree(path)
            return
        same = now == was and content_of(path) == content_of(copy)
        if same and (now == "link" or same_access(path, copy)):
            return
        ours = not now or same or "any" in kinds
        ours = ours or ("link" in kinds if now == "link" else digest(content_of(path)) in kinds)
        shared = name in SHARED and now == was == "file" and (BASELINE / "last" / path.name).exists()
        if not ours and not shared:
            self.save_copy(path, name, BY_HAND)
        if was:
            self.restored.append(name)
            self.restore(path, copy, merge=shared and not ours)
            return
        self.removed.append(name)
        self.show(path, b"")
        if not self.module.check_mode:
            path.unlink()

    def restore(self, path: Path, copy: Path, *, merge: bool) -> None:
        """Restore a file or link from its copy."""
        data = content_of(copy)
        if merge:
            files = (copy, BASELINE / "last" / path.name, path)
            texts = (each.read_text(encoding="utf-8", errors="replace") for each in files)
            data = merged(*texts).encode()
        if not copy.is_symlink():
            self.write(path, data, copy)
            if str(path) == "/etc/hostname" and not self.module.check_mode:
                self.output("hostname", "-F", str(path))
            return
        self.show(path, data)
        if not self.module.check_mode:
            path.unlink(missing_ok=True)
            shutil.copy2(copy, path, follow_symlinks=False)

    def write(self, path: Path, data: bytes, like: Path) -> None:
        """Write a file with the mode and owner of `like`; in place if it is a mount point, as in a container."""
        self.show(path, data)
        if self.module.check_mode:
            return
        wanted = like.stat()
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        fresh = BASELINE / "fresh"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(data)
        if path.is_symlink():
            path.unlink()
        self.module.atomic_move(str(fresh), str(path), unsafe_writes=True)
        os.chown(path, wanted.st_uid, wanted.st_gid)
        path.chmod(wanted.st_mode & 0o7777)

    def show(self, path: Path, after: bytes) -> None:
        """Add a file to the diff; the content is hidden if not all users can read it."""
        before = content_of(path) if kind_of(path) in {"file", "link"} else b""
        hidden = bool(before) and not path.lstat().st_mode & 0o004
        texts = ("(not shown)\n" if hidden and text else text.decode(errors="replace") for text in (before, after))
        headers = {"before_header": str(path), "after_header": str(path)}
        self.diff.append({**dict(zip(("before", "after"), texts)), **headers})

    def empty_directories(self) -> None:
        """Remove empty directories that busbar or its packages created."""
        written = [Path(name) for name in self.entries if is_below(name, TOPS)]
        found = {each for path in written for each in (path, *path.parents) if not self.in_baseline(each)}
        others = [*self.given["data"], *self.homes]
        tops = {parent for top in TOPS for parent in (Path(top), *Path(top).parents)}
        for path in sorted((each for each in found - tops if kind_of(each) == "directory"), reverse=True):
            if not is_below(str(path), others):
                with contextlib.suppress(OSError):
                    path.rmdir()
                    self.removed.append(str(path))
