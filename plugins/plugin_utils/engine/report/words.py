# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Words that several writers of reports use."""

from __future__ import annotations

__all__ = ["NONE", "gbs"]

NONE = "\u2013"


def gbs(value: float | None) -> str:
    """Return a bandwidth in GB/s, or a dash where there is none."""
    return NONE if value is None else f"{value:.4g}"
