"""Detect failed results that were caused by invalid input."""

from __future__ import annotations

from typing import Any

from ..module_utils.common.refusal import REFUSED

__all__ = ["is_refused"]


def is_refused(result: dict[str, Any]) -> bool:
    """Return whether a result is a refusal; for a loop, whether all failed items are."""
    failed = [item for item in result.get("results") or [] if isinstance(item, dict) and item.get("failed")]
    return result.get(REFUSED) is True or (bool(failed) and all(item.get(REFUSED) is True for item in failed))
