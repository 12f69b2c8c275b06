# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Convert Ansible's tagged data to plain Python types."""

from __future__ import annotations

from typing import Any

__all__ = ["untagged"]


def untagged(value: Any) -> Any:  # noqa: ANN401 - arbitrary data
    """Return data in plain Python types, which YAML's safe dumper requires."""
    if isinstance(value, dict):
        return {str(key): untagged(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [untagged(each) for each in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return value if kind is bool else kind(value)
    return value
