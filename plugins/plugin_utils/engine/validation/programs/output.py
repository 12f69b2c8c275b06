# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the lines that programs print for busbar; a damaged line never raises."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_object", "plain_text"]

_LONGEST = 300


def plain_text(value: object) -> str:
    """Return printable text of limited length."""
    return "".join(char if char.isprintable() else " " for char in str(value))[:_LONGEST]


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or an empty one if the text is not a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
