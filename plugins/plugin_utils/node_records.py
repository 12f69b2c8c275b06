"""What a site notes of its nodes for good: a file of lines beside the reports, on the provisioning host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NAME", "read_node_records"]

NAME = "nodes.jsonl"
_LARGEST = 1 << 24


def read_node_records(place: Path) -> str:
    """Return the text of the records beside the reports; empty when there are none.

    Raises:
        OSError: they are there and cannot be read.
    """
    try:
        with (place / NAME).open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace")
    except FileNotFoundError:
        return ""
