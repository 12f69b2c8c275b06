"""What busbar changes on a host, noted there before it does so: the way back.

The record lies in one directory that only root reads. `baseline.json` says what was there before the first change;
`changes.json` names what was changed since, and `originals` holds the files that were replaced, each as it was before
the first change. All of it is written before the change itself, so that a run that is killed leaves no change without
its note; a note without its change does no harm, since the uninstallation looks at what is really there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .host_baseline import DAMAGED, EDITED, host_baseline, installed_packages, names_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ansible.module_utils.basic import AnsibleModule

__all__ = [
    "DAMAGED",
    "Record",
    "existing",
    "note_accounts",
    "note_directories",
    "note_files",
    "note_tree",
    "open_record",
    "packages_noted",
    "sha256",
]

RECORD = Path("/var/lib/busbar/record")
# In these people write lines of their own beside those of busbar, which needs its last text to tell them apart.
SHARED = ("/etc/hosts", "/etc/fstab")
ACCOUNTS = {"users": Path("/etc/passwd"), "groups": Path("/etc/group")}
# One that a killed run has written and the one before it.
_LAST_TEXTS = 2
_BLOCK = 1 << 20
# What a package manager is called for that changes which packages are there, or which are held.
_CHANGING = {"install", "remove", "purge", "upgrade", "full-upgrade", "dist-upgrade", "downgrade", "autoremove"}
_DRY = {"--simulate", "-s", "--assumeno", "--download-only"}


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def existing(path: Path) -> dict[str, Any] | None:
    """Return what lies at a path: kind, mode and owner, and where a link leads; None when there is nothing."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    here: dict[str, Any] = {"mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid}
    if stat.S_ISLNK(found.st_mode):
        return {**here, "kind": "link", "target": str(path.readlink())}
    if stat.S_ISDIR(found.st_mode):
        return {**here, "kind": "directory"}
    return {**here, "kind": "file" if stat.S_ISREG(found.st_mode) else "other"}


class Record:
    """The record of a host, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Read it; one that was never begun is empty.

        Raises:
            ValueError: it is damaged.
        """
        self.folder = folder
        self.baseline: dict[str, Any] | None = self._read("baseline.json")
        self.changes: dict[str, Any] = {
            "paths": {},
            "packages": {},
            "upgraded": {},
            "removed": {},
            "going": [],
            "held": [],
            "users": [],
            "groups": [],
            **(self._read("changes.json") or {}),
        }

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as exc:
            raise ValueError(DAMAGED.format(path=self.folder / name, reason=exc)) from exc
        return found

    def _write(self, name: str, found: Mapping[str, Any]) -> None:
        """Replace a file whole, so that it is the former or the new one after a loss of power, too."""
        fresh = self.folder / f".{name}.new"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
            json.dump(found, stream)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self.folder / name)

    def begin(self, module: AnsibleModule) -> None:
        """Note what is there before the first change, unless that is known."""
        if self.baseline is not None:
            return
        baseline = host_baseline(module, self.folder)
        for name in EDITED:
            self.note(Path(name), None)
        self.save()
        self._write("baseline.json", baseline)
        self.baseline = baseline

    def save(self) -> None:
        """Write what was noted."""
        self._write("changes.json", self.changes)

    def original(self, path: str) -> Path:
        """Return where the former content of a file lies."""
        return self.folder / "originals" / hashlib.sha256(path.encode()).hexdigest()

    def note(self, path: Path, text: str | None) -> None:
        """Note a path before it changes: what is there now, when that is not known yet, and what it will hold.

        Args:
            path: of a file, link or directory.
            text: the SHA-256 of the new content, 'absent' when it goes; None leaves that open.
        """
        name = str(path)
        if name not in self.changes["paths"]:
            here = existing(path)
            if here and here["kind"] == "file":
                self._keep(path)
            self.changes["paths"][name] = {"was": here, "texts": []}
        texts = self.changes["paths"][name]["texts"]
        if text is not None and (not texts or texts[-1] != text):
            self.changes["paths"][name]["texts"] = [*texts, text][-_LAST_TEXTS:]

    def _keep(self, path: Path) -> None:
        """Keep the content of a file, whole or not at all."""
        kept = self.original(str(path))
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = kept.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            with path.open("rb") as source:
                shutil.copyfileobj(source, stream)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(kept)

    def settle(self, module: AnsibleModule, *, killed: bool = False) -> None:
        """Note what the package manager has done.

        Args:
            module: the module that runs.
            killed: whether time has passed since, so that what others installed by name meanwhile is not busbar's.
        """
        pending = self.changes.pop("pending", None)
        if pending is None:
            return
        before, now = pending["packages"], installed_packages(module)
        for name, (version, automatic) in now.items():
            if name not in before:
                if killed and not automatic and name not in pending["names"]:
                    continue
                self.changes["packages"][name] = "automatic" if automatic else "manual"
                self.changes["removed"].pop(name, None)
            elif before[name][0] != version:
                self.changes["upgraded"].setdefault(name, before[name][0])
        for name in before.keys() - now.keys():
            if self.changes["packages"].pop(name, None) is None:
                self.changes["removed"][name] = "automatic" if before[name][1] else "manual"
        for kind, path in ACCOUNTS.items():
            self.changes[kind] = sorted({*self.changes[kind], *names_in(path).keys() - set(pending[kind])})


@contextlib.contextmanager
def open_record() -> Iterator[Record]:
    """Hold the record of this host, made when there is none.

    Raises:
        OSError: it cannot be read or written.
        ValueError: it is damaged.
    """
    for missing in reversed([each for each in (RECORD, *RECORD.parents) if not each.exists()]):
        missing.mkdir()
        missing.chmod(0o700 if missing == RECORD else 0o755)
    with os.fdopen(os.open(RECORD / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Record(RECORD)


@contextlib.contextmanager
def _changed(module: AnsibleModule) -> Iterator[Record]:
    """Hold the record for one change of it; what cannot be noted is not done."""
    try:
        with open_record() as record:
            record.begin(module)
            yield record
            record.save()
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{RECORD}: the record of what is changed here cannot be kept, so nothing was: {exc}")


def note_files(module: AnsibleModule, files: Mapping[str, str | bytes | None]) -> None:
    """Note files before they are written, or removed where the content is None; nothing in check mode."""
    if module.check_mode or not files:
        return
    with _changed(module) as record:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            _note_parents(record, Path(name))
            record.note(Path(name), "absent" if data is None else hashlib.sha256(data).hexdigest())
            if name in SHARED and data is not None:
                record.changes["paths"][name]["last"] = data.decode(errors="replace")


def note_directories(module: AnsibleModule, paths: Iterable[Path]) -> None:
    """Note directories, with their missing parents, before they are made or corrected; nothing in check mode."""
    given = list(paths)
    if module.check_mode or not given:
        return
    with _changed(module) as record:
        for path in given:
            _note_parents(record, path)
            record.note(path, None)


def note_tree(module: AnsibleModule, top: Path, place: Path) -> None:
    """Note each file of a tree before it is moved to its place; nothing in check mode."""
    if module.check_mode:
        return
    with _changed(module) as record:
        _note_parents(record, place)
        for path in (top, *sorted(top.rglob("*"))):
            there = place / path.relative_to(top)
            record.note(there, sha256(path) if path.is_file() and not path.is_symlink() else None)


def note_accounts(module: AnsibleModule, users: Iterable[str], groups: Iterable[str]) -> None:
    """Note users and groups that are about to be made; those that are there already are not busbar's."""
    if module.check_mode:
        return
    with _changed(module) as record:
        for kind, names in (("users", users), ("groups", groups)):
            fresh = set(names) - names_in(ACCOUNTS[kind]).keys()
            record.changes[kind] = sorted({*record.changes[kind], *fresh})


@contextlib.contextmanager
def packages_noted(module: AnsibleModule, command: list[str]) -> Iterator[None]:
    """Note what a package manager changes: packages that come and go, users and groups that their scripts make."""
    words = set(command)
    if module.check_mode or words & _DRY or not words & {*_CHANGING, "hold", "versionlock"}:
        yield
        return
    with _changed(module) as record:
        record.settle(module, killed=True)
        # A killed uninstallation is not to be finished: what somebody asks for by name from now on is theirs.
        record.changes["going"] = []
        accounts = {kind: sorted(names_in(path)) for kind, path in ACCOUNTS.items()}
        asked = sorted({re.split("[=_]", Path(word).name)[0] for word in command})
        record.changes["pending"] = {"packages": installed_packages(module), "names": asked, **accounts}
        if "hold" in words:
            record.changes["held"] = sorted({*record.changes["held"], *command[command.index("hold") + 1 :]})
    yield
    with _changed(module) as record:
        record.settle(module)


def _note_parents(record: Record, path: Path) -> None:
    for parent in reversed(path.parents):
        if not parent.exists() and not parent.is_relative_to(record.folder.parent):
            record.note(parent, None)
