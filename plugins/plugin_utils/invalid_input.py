"""Detect results of tasks that failed because of invalid input."""

from __future__ import annotations

from typing import Any

from ..module_utils.common.problems import REFUSED


def is_refused(result: dict[str, Any]) -> bool:
    """Return whether a task failed because of invalid input; for a loop, whether this applies to all failed items."""
    failed = [item for item in result.get("results") or [] if isinstance(item, dict) and item.get("failed")]
    return result.get(REFUSED) is True or (bool(failed) and all(item.get(REFUSED) is True for item in failed))
