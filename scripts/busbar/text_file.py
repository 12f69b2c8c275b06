"""Reads users' text files in the encodings that editors and shells commonly write."""

from __future__ import annotations

import sys
from pathlib import Path

from busbar.errors import UsageError

BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_MOST_BYTES = 1 << 28


def read_text(name: str | Path, most: int = _MOST_BYTES) -> str:
    """Return the text of a file, or of standard input for `-`; invalid bytes are replaced.

    Raises:
        UsageError: the file cannot be read, is binary or has more bytes than `most`.
    """
    where = "standard input" if name == "-" else name
    try:
        if name == "-":
            content = sys.stdin.buffer.read(most + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(most + 1)
    except OSError as exc:
        message = f"cannot read {where}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    text = content.decode(BOMS.get(content[:2], "utf-8-sig"), errors="replace")
    if len(content) > most or "\0" in text:
        problem = "is a binary file, not text" if "\0" in text else f"is larger than {most >> 20} MiB"
        message = f"{where} {problem}"
        raise UsageError(message)
    return text
