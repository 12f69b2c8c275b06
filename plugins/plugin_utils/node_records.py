"""Read and append the node records of a site, a JSON Lines file next to the reports on the provisioning host."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "nodes.jsonl"
_LARGEST = 1 << 24


def read_node_records(place: Path) -> str:
    """Return the text of the records, or '' if the file does not exist.

    Raises:
        OSError: if the file cannot be read.
    """
    try:
        with (place / NAME).open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace")
    except FileNotFoundError:
        return ""


def add_node_record(place: Path, record: Mapping[str, Any]) -> None:
    """Append a record with a single write.

    Raises:
        OSError: if the record cannot be written.
    """
    place.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, f"{json.dumps(record)}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
