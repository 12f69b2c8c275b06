# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Data in Python's own types."""

from __future__ import annotations

from typing import Any

__all__ = ["untagged"]


def untagged(value: Any) -> Any:  # noqa: ANN401 - data is what it is
    """Return data in Python's own types: Ansible's carry tags that YAML's safe writer does not know."""
    if isinstance(value, dict):
        return {str(key): untagged(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [untagged(each) for each in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return value if kind is bool else kind(value)
    return value
