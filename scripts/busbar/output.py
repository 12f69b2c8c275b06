"""Prints JSON and tables on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_json(data: object) -> None:
    """Print data as JSON."""
    json.dump(data, sys.stdout, indent=1, allow_nan=False)
    print()


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of equal length as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print(printable("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()))
