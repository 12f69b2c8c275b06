"""The files, links and directories of a host that is brought back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.host_baseline import deeper
from ..common.host_record import existing, sha256
from .base import HostBase
from .paths import Step, is_below, merged, path_step, without_block

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PathsOfHost"]


class PathsOfHost(HostBase):
    """Gives back what busbar replaced, and removes what it made."""

    def step(self, name: str, entry: Mapping[str, Any]) -> Step:
        """Return what is done with a path of the record."""
        if is_below(name, self.given["data"]):
            return Step("")
        if where := is_below(name, self.homes):
            return Step("leave" if os.path.lexists(name) else "", why=f"in {where}")
        path = Path(name)
        now, original = existing(path), self.record.original(name)
        text = sha256(path) if now and now["kind"] == "file" else ""
        return path_step(self.entry(name, entry), now, text, sha256(original) if original.exists() else "")

    def entry(self, name: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the entry of a path; a file that came with a package of busbar was not there before."""
        came_later = name not in self.before if not deeper(name) else entry.get("of_package", False)
        return {**entry, "was": None} if came_later else entry

    def note_owners(self) -> None:
        """Note which paths came with packages that go, as long as these can tell."""
        if not self.going or not self.on_debian():
            return
        owned = set(self.output("dpkg-query", "-L", *self.going).splitlines())
        for name, entry in self.record.changes["paths"].items():
            if entry["was"] and name in owned and deeper(name):
                entry["of_package"] = True

    def keep_changed(self, steps: Mapping[str, Step]) -> None:
        """Keep what was changed by hand, before anything goes."""
        for name, step in steps.items():
            if step.aside:
                self.keep_aside(Path(name), name, step.why, copy=True)

    def files(self, planned: Mapping[str, Step]) -> None:
        """Put all paths right, directories last and the deepest of them first."""
        told = {name for name, step in planned.items() if step.aside}
        entries = self.record.changes["paths"]
        for name, entry in entries.items():
            step = planned[name] if self.module.check_mode else self.step(name, entry)
            self.put_right(name, entry, step._replace(aside=step.aside and name not in told))
        self.blocks()
        self.made()
        self.replaced()
        for path in self.empty_directories(planned):
            self.remove_directory(path)

    def empty_directories(self, planned: Mapping[str, Step]) -> list[Path]:
        """Return the directories that may go when they are empty, the deepest first.

        Those of packages, too: with a file of busbar in it, one outlives its package.
        """
        found = {Path(name) for name, step in planned.items() if step.action == "rmdir"}
        for name in self.record.changes["paths"]:
            found |= {path for path in Path(name).parents if str(path) not in self.before and not deeper(str(path))}
        safe = [path for path in found if not is_below(str(path), [*self.given["data"], *self.homes])]
        return sorted((path for path in safe if path.is_dir() and not path.is_symlink()), reverse=True)

    def put_right(self, name: str, entry: Mapping[str, Any], step: Step) -> None:
        """Do what is to be done with a file or link, and tell it."""
        path = Path(name)
        if step.action == "leave":
            self.kept.append(f"{name}: {step.why}")
            return
        if step.action in {"", "rmdir"}:
            return
        now = existing(path)
        if step.aside and now:
            self.keep_aside(path, name, step.why, copy=True)
        if step.action == "remove":
            self.show(name, now, "")
            self.removed.append(name)
            if not self.module.check_mode:
                path.unlink()
            return
        self.restored.append(name)
        self.restore(path, self.entry(name, entry), step)

    def restore(self, path: Path, entry: Mapping[str, Any], step: Step) -> None:
        """Give a path back what was there; in place where it cannot be replaced, as the bind mount of a container."""
        was, kept = entry["was"], self.record.original(str(path))
        if was["kind"] == "link":
            self.show(str(path), existing(path), f"-> {was['target']}\n")
            if not self.module.check_mode:
                path.unlink(missing_ok=True)
                path.symlink_to(was["target"])
            return
        data = kept.read_bytes()
        if step.action == "merge":
            now = path.read_text(encoding="utf-8", errors="replace")
            data = merged(data.decode(errors="replace"), entry["last"], now).encode()
        self.show(str(path), existing(path), data.decode(errors="replace"))
        if self.module.check_mode:
            return
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor, fresh = os.open(kept.with_suffix(".back"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), ""
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        fresh = str(kept.with_suffix(".back"))
        os.chown(fresh, was["uid"], was["gid"])
        os.chmod(fresh, was["mode"])  # noqa: PTH101
        self.module.atomic_move(fresh, str(path), unsafe_writes=True)
        os.chown(path, was["uid"], was["gid"])
        path.chmod(was["mode"])

    def blocks(self) -> None:
        """Take out what Ansible's own modules set in files that are not busbar's."""
        for item in self.given["blocks"]:
            path = Path(item["path"])
            if not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            after = without_block(text, item["begin"], item["end"])
            if after != text:
                self.show(str(path), existing(path), after)
                self.restored.append(str(path))
                if not self.module.check_mode:
                    found = path.stat()
                    fresh = path.with_name(f"{path.name}.busbar-new")
                    fresh.write_text(after, encoding="utf-8")
                    fresh.chmod(found.st_mode & 0o7777)
                    os.chown(fresh, found.st_uid, found.st_gid)
                    fresh.replace(path)
            if not after.strip() and str(path) not in self.before and not self.module.check_mode:
                path.unlink()

    def made(self) -> None:
        """Take away links and empty directories that builtin modules made; a file only with the text that was given."""
        for item in self.given["made"]:
            path = Path(item["path"])
            now = existing(path)
            if now is None or str(path) in self.before or is_below(str(path), self.data):
                continue
            same = now["kind"] == "file" and (
                item["any_text"] or (item["content"] and path.read_text(errors="replace") == item["content"])
            )
            if now["kind"] == "link" or same:
                self.show(str(path), now, "")
                self.removed.append(str(path))
                if not self.module.check_mode:
                    path.unlink()
            elif now["kind"] == "directory":
                self.remove_directory(path)
            else:
                self.kept.append(f"{path}: not as busbar made it")

    def replaced(self) -> None:
        """Give back what builtin modules have replaced: the name of the host, its time zone."""
        for name in self.given["replaced"]:
            entry, path = self.record.changes["paths"].get(name), Path(name)
            now, original = existing(path), self.record.original(name)
            if entry is None or entry["was"] is None or now is None:
                continue
            same = now["kind"] == entry["was"]["kind"] and now.get("target") == entry["was"].get("target")
            if now["kind"] == "file" and original.exists():
                same = sha256(path) == sha256(original)
            if not same:
                self.restored.append(name)
                self.restore(path, entry, Step("restore"))
                if name == "/etc/hostname" and not self.module.check_mode:
                    self.output("hostname", "-F", name)
