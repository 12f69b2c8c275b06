"""The record of the last full run: what it executed on which host, and what each execution answered.

It is kept in the site's folder beside the logs, for its owner alone: arguments of modules hold secrets.
"""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..module_utils.common import replay
from .site_folder import site_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "EXECUTIONS",
    "FOLDER",
    "LOCAL",
    "NotKeptError",
    "append",
    "forget",
    "handed_over",
    "keep",
    "note_renewal",
    "read",
    "record_of",
]

EXECUTIONS, _DUE = "executions", "due"
LOCAL = "localhost"
FOLDER = "BUSBAR_RECORDING"
"""The variable of the environment that names the folder to note it in."""
_DAY_S = 24 * 3600
_RECORD, _ARCHIVE = "record.json", "modules.zip"
_ROOT = {"ssh": "root", "local": ""}
# Only reads, but has no check mode.
_READERS = frozenset({"ansible.modules.wait_for"})
_KEPT = ("task", "module", "profile", "arguments", "environment", "dry", "digest")


class NotKeptError(ValueError):
    """What a run executed cannot be executed once more in one go; the message says what and why."""


def record_of(source: str | Path) -> Path:
    """Return the folder of the record of an inventory's last full run."""
    return site_folder(source) / "logs" / "last_run"


def forget(folder: Path) -> None:
    """Remove a record: something is about to change the hosts.

    Raises:
        OSError: it cannot be removed.
    """
    # First what makes it one.
    (folder / _RECORD).unlink(missing_ok=True)
    if folder.is_dir():
        shutil.rmtree(folder)


def read(folder: Path) -> dict[str, Any]:
    """Return what was kept with the record; empty when there is none that can be read."""
    try:
        found = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(recording: Path, folder: Path, about: dict[str, Any]) -> None:
    """Make the record out of what a run noted.

    Args:
        recording: where the run noted it.
        folder: where the record shall be; one that is there is replaced.
        about: what is kept with it.

    Raises:
        NotKeptError: something cannot be executed once more.
        OSError: the record cannot be written.
    """
    hosts = _by_host(_noted(recording / EXECUTIONS))
    due = [entry["due"] for entry in _noted(recording / _DUE)]
    about = about | ({"due": min(due)} if due else {})
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".last_run-"))
    try:
        _write(made / _ARCHIVE, _archive(recording))
        for host, executions in hosts.items():
            _write(made / _of(host), zlib.compress(json.dumps(executions).encode()))
        _write(made / _RECORD, json.dumps(about | {"hosts": sorted(hosts)}, indent=1, sort_keys=True).encode())
        forget(folder)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def handed_over(folder: Path, host: str) -> dict[str, str]:
    """Return what the module `replay` is given for a host.

    Raises:
        OSError: there is no record of it.
    """
    archive, executions = (folder / _ARCHIVE).read_bytes(), (folder / _of(host)).read_bytes()
    return {"archive": base64.b64encode(archive).decode(), "executions": base64.b64encode(executions).decode()}


def _of(host: str) -> str:
    return f"host-{host}.json"


def note_renewal(end: float, days: int) -> None:
    """Note, where a run is noted, that another full one is due so many days before the end of a certificate."""
    if folder := os.environ.get(FOLDER):
        append(Path(folder) / _DUE, {"due": end - days * _DAY_S})


def append(path: Path, entry: dict[str, Any]) -> None:
    """Append to what is noted, beside other processes."""
    with path.open("ab", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(f"{json.dumps(entry)}\n".encode())


def _noted(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _by_host(noted: Iterator[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the executions of each host, each once, with what it answered last.

    Raises:
        NotKeptError: one cannot be executed once more.
    """
    hosts: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in noted:
        host = entry["on"] or entry["host"]
        local = entry["connection"] == "local"
        problem = entry.get("problem", "")
        if not problem and (_ROOT.get(entry["connection"]) != entry["become"] or local != (host == LOCAL)):
            problem = f"it is executed over {entry['connection']} as {entry['become'] or 'another user than root'}"
        if problem:
            message = f"{host}: {entry['task']}: {problem}"
            raise NotKeptError(message)
        kept = {key: entry[key] for key in _KEPT}
        kept["dry"] = kept["dry"] and kept["module"] not in _READERS
        same = json.dumps([kept[key] for key in ("module", "arguments", "environment", "dry")], sort_keys=True)
        hosts.setdefault(host, {})[same] = kept
    return {host: list(executions.values()) for host, executions in hosts.items()}


def _archive(recording: Path) -> bytes:
    """Return one archive with the code of all modules.

    Raises:
        NotKeptError: two of them bring different code under one name.
    """
    files: dict[str, bytes] = {}
    for path in sorted(recording.glob("*.zip64")):
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(path.read_bytes()))) as archive:
            for name in archive.namelist():
                code = archive.read(name)
                if files.setdefault(name, code) != code:
                    message = f"{name} is not the same for all modules"
                    raise NotKeptError(message)
    main = f"{replay.MAIN.replace('.', '/')}.py"
    files[main] = Path(replay.__file__).read_bytes()
    for parent in Path(main).parents:
        if parent.name:
            files.setdefault(f"{parent}/__init__.py", b"")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, code in files.items():
            archive.writestr(name, code)
    return out.getvalue()


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
