# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the output of a test from the file in which it was saved, line by line and however long it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nccl.condensed import condensed
from ..nccl.output import bounded_lines

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MOST_KEPT", "saved_text"]

# Characters, of all that is not repeated. The longest tables and lists of ranks have some 10 MB.
MOST_KEPT = 1 << 26
_BEGINS = "# busbar test: "


def saved_text(path: Path, most: int = MOST_KEPT) -> str:
    """Return what an output tells; what NCCL's own lines say again and again is left out.

    Raises:
        OSError: it cannot be read.
        ValueError: it tells more than would fit into memory.
    """
    # What a node printed may be no text at all.
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        return condensed(bounded_lines(file), lambda line: line.startswith(_BEGINS), most).rstrip("\r\n")
