"""What the result of a run may depend on, besides the hosts: files of this machine, variables, options, versions.

What is not sure to be seen here keeps a run from being left out: a digest may change too often, never too rarely.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import inventory_folder, site_folder

from busbar.paths import collection
from busbar.run.playbook import environment, host_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from busbar.run.playbook import Playbook

__all__ = ["UnsureError", "difference", "inputs"]

# What a run itself writes; storage is the shared tree of a sandbox.
_OUTPUTS = frozenset({"logs", "reports", "inventory.lock", "storage", "__pycache__"})
_OWN_PARTS = ("roles", "plugins", "playbooks", "group_vars")
# Variables that name a folder of this machine.
_FOLDERS = frozenset({"cluster_dir", "cluster_secrets_dir"})
_KNOWN = re.compile(r"\{\{\s*(?:cluster_dir|cluster_secrets_dir|inventory_dir|playbook_dir)\s*\}\}")
_EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_MOST_FILES, _MOST_BYTES = 20_000, 1 << 28
# Display alone.
_SHOWN = frozenset({"-D", "--diff", "-v", "--verbose"})
# Whatever else a template looks up may be another thing tomorrow, and no file tells.
_LOOKS_UP = re.compile(r"\b(?:lookup|query|q)\s*\(\s*(?!['\"]busbar\.cluster\.)|\bnow\s*\(")


class UnsureError(ValueError):
    """What a run depends on cannot be told; the message says why."""


def inputs(playbook: Playbook) -> dict[str, str]:
    """Return a digest of each thing that a run depends on, by its name for people.

    Raises:
        UnsureError: there may be more.
    """
    sites = [site_folder(source) for source in playbook.inventory if "," not in source]
    if len(sites) != len(playbook.inventory):
        message = "the inventory is no file"
        raise UnsureError(message)
    variables = host_variables(playbook)
    if not variables:
        message = "the variables cannot be read here, as those of a file that is encrypted as a whole"
        raise UnsureError(message)
    ansible = environment(playbook.inventory)
    files = _Files()
    own = [collection() / part for part in _OWN_PARTS]
    for path in (*own, Path(__file__).parents[1], Path(ansible["ANSIBLE_CONFIG"])):
        files.take(path)
    for root in ansible["ANSIBLE_COLLECTIONS_PATH"].split(os.pathsep):
        for manifest in Path(root).glob("ansible_collections/*/*/MANIFEST.json"):
            files.take(manifest)
    for folder in {*sites, *map(inventory_folder, playbook.inventory)}:
        files.take(folder)
    words = [word for word in playbook.options if word not in _SHOWN and not re.fullmatch(r"-v+", word)]
    for path in _named(variables, words, [Path.cwd(), *sites]):
        files.take(path)
    # What this command sets itself, and by now has, is said by the files above.
    given = {name: value for name, value in os.environ.items() if name.startswith("ANSIBLE_") and name not in ansible}
    return {
        **files.digests,
        "the variables of the hosts": _digest(json.dumps(variables, sort_keys=True, default=repr)),
        "the options": _digest(json.dumps([playbook.path.name, *words])),
        "the environment": _digest(json.dumps([os.getuid(), given], sort_keys=True)),
        "the versions of programs": _digest(json.dumps(_versions())),
    }


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return what differs, '' when nothing does."""
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if not names:
        return ""
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


class _Files:
    """Digests of files and of all that is in folders."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self._bytes = 0

    def take(self, path: Path) -> None:
        """Take a file in, or a folder with all that is in it.

        Raises:
            UnsureError: it is too much, or cannot be read.
        """
        try:
            for each in _walk(path):
                self._one(each)
        except OSError as exc:
            message = f"{exc.filename or path} cannot be read: {exc.strerror or exc}"
            raise UnsureError(message) from exc

    def _one(self, path: Path) -> None:
        name = str(path)
        if name in self.digests:
            return
        found = path.stat()
        self._bytes += found.st_size
        if len(self.digests) >= _MOST_FILES or self._bytes > _MOST_BYTES:
            message = f"there are too many files to compare, such as {path}"
            raise UnsureError(message)
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        self.digests[name] = f"{content} {found.st_mode:o} {found.st_uid}"


def _walk(path: Path) -> Iterator[Path]:
    """Yield the files of a folder, also those behind links; pipes and devices have nothing to compare."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _OUTPUTS]
        for name in names:
            file = Path(folder) / name
            if not name.startswith(".") and name not in _OUTPUTS and not name.endswith(".pyc") and file.is_file():
                yield file


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in variables."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple | set):
        for each in value:
            yield from _texts(each)


def _named(variables: Mapping[str, Mapping[str, Any]], words: list[str], folders: list[Path]) -> Iterator[Path]:
    """Yield the files of this machine that variables and options name."""
    for each in variables.values():
        yield from (Path(str(each[name])) for name in _FOLDERS & each.keys())
    for text in [*_texts(variables), *words]:
        _look(text)
        yield from _paths(text, folders)


def _look(text: str) -> None:
    """Look whether a variable asks for something that no file tells.

    Raises:
        UnsureError: it does.
    """
    left = _KNOWN.sub("", text)
    if "{{" not in left and "{%" not in left:
        return
    # A path that is put together, which an address is not.
    if _LOOKS_UP.search(left) or re.match(r"\s*[^\s:]*/", _EXPRESSION.sub("x", left)):
        message = f"a variable looks something up: {' '.join(text.split())[:80]}"
        raise UnsureError(message)


def _paths(text: str, folders: list[Path]) -> Iterator[Path]:
    """Yield the files and folders that a text may name."""
    name = text.rpartition("=")[2].removeprefix("@")
    if not name or "\0" in name or "\n" in name or len(name) > os.pathconf("/", "PC_PATH_MAX"):
        return
    path = Path(name).expanduser() if name.startswith("~") else Path(name)
    if path.is_absolute():
        if path.is_file():
            yield path
        return
    for folder in folders:
        try:
            found = (folder / path).is_file()
        except OSError:
            continue
        if found:
            yield folder / path


def _versions() -> list[str]:
    """Return what is installed beside the collection."""
    found: set[str] = {f"{each.metadata['Name']} {each.version}" for each in metadata.distributions()}
    return [sys.version, *sorted(found)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
