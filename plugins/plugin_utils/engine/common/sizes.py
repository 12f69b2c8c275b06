# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of bytes for people."""

from __future__ import annotations

__all__ = ["human_size"]


def human_size(size: float) -> str:
    """Return a number of bytes in the largest unit that keeps it whole enough."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size:.0f} B"
