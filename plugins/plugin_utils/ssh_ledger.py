"""Read and write the ledger of certified SSH host keys, a file in the secrets directory."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

NAME = "ssh_host_keys.json"
_FIELDS = {"host", "key", "authority", "days", "retired"}


def read_ledger(directory: Path) -> list[dict[str, Any]]:
    """Return the entries; empty if the ledger does not exist yet.

    Raises:
        ValueError: if the file is damaged; the message names it and the remedy.
    """
    path = directory / NAME
    try:
        entries = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        raise _damaged(path, str(exc)) from exc
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and entry.keys() >= _FIELDS for entry in entries
    ):
        raise _damaged(path, "does not contain a list of keys")
    return entries


def write_ledger(directory: Path, entries: list[dict[str, Any]]) -> None:
    """Replace the ledger atomically, with mode 0600.

    Raises:
        ValueError: if it cannot be written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{NAME}.", dir=directory)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(entries, stream, indent=1)
            stream.write("\n")
        Path(name).replace(directory / NAME)
    except OSError as exc:
        message = f"{directory / NAME} cannot be written: {exc.strerror}"
        raise ValueError(message) from exc


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(f"{path}: {reason}: restore it from a backup, or remove it to start without revoked host keys")
