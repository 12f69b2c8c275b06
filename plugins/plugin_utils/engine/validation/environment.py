# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a job ran on, read from the lines that it prints about itself."""

from __future__ import annotations

__all__ = ["environment_of"]

PREFIX = "# busbar: "
_MOST = 64
_LONGEST = 400


def environment_of(text: str | None) -> dict[str, str]:
    """Return what a job said of where it ran, from lines such as ``# busbar: Kernel=6.1.0-44-amd64``.

    Only the lines before the first that is not of this form count; there may be other noise in front of them.
    """
    found: dict[str, str] = {}
    for line in (text or "")[: _MOST * _LONGEST].splitlines():
        if line.startswith(PREFIX) and "=" in line:
            key, value = line[len(PREFIX) :].split("=", 1)
            if len(found) < _MOST and value.strip():
                found.setdefault(key.strip()[:_LONGEST], value.strip()[:_LONGEST])
        elif found:
            break
    return found
