# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What is said, in every role and playbook alike, of a `hardware` that no profile describes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["unknown_hardware"]

_CLOSE = 0.6


def unknown_hardware(name: object, known: Iterable[str]) -> tuple[str, str]:
    """Return the problem of an unknown name, with the known names near it, and the remedy.

    Args:
        name: as the site wrote it.
        known: names of all profiles.
    """
    names = sorted(map(str, known))
    plain = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(plain, names, n=3, cutoff=_CLOSE)
    problem = f"unknown hardware {name!r}" + (f" (did you mean {' or '.join(near)}?)" if near else "")
    remedy = f"set hardware to one of: {', '.join(names) or 'none is known'}; or describe it in hardware_profiles_extra"
    return problem, remedy
