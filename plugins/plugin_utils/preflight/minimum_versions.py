# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The oldest versions of what drives GPUs without a published hole, with the bulletin that says so.

A table of facts, as of AS_OF; a newer bulletin is a change of a line here. Distributions that mend an old version keep
its number, so only what comes from NVIDIA's own repositories is in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["AS_OF", "MINIMUMS", "Minimum", "is_below"]

AS_OF = "2026-08-19"
_BULLETINS = "https://github.com/NVIDIA/product-security/blob/main/2026"


class Minimum(NamedTuple):
    """The oldest good version of a program.

    Attributes:
        name: as people call it.
        least: version; of the driver one for each branch that still gets fixes.
        option: the option of the inventory that chooses it.
        source: the bulletin, and its day.
    """

    name: str
    least: tuple[str, ...]
    option: str
    source: str


# Keys are those of `versions` in the module node_info.
MINIMUMS = {
    "driver": Minimum(
        "NVIDIA driver",
        ("535.309.01", "570.211.01", "580.159.03", "590.48.01", "595.71.05"),
        "nvidia_driver_branch or nvidia_driver_version",
        f"{_BULLETINS}/5747/5747.json, 2026-01-28, and {_BULLETINS}/5821/5821.json, 2026-05-19",
    ),
    "container_toolkit": Minimum(
        "NVIDIA Container Toolkit",
        ("1.19.1",),
        "nvidia_container_toolkit_version",
        f"{_BULLETINS}/5850/5850.json, 2026-06-30",
    ),
    "cuda": Minimum("CUDA toolkit", ("13.1",), "cuda_versions", f"{_BULLETINS}/5755/5755.json, 2026-01-20"),
    "dcgm": Minimum("DCGM", ("4.5.3",), "dcgm_version", f"{_BULLETINS}/5857/5857.json, 2026-07-28"),
    "dcgm_exporter": Minimum(
        "DCGM exporter", ("4.8.2",), "dcgm_exporter_version", f"{_BULLETINS}/5857/5857.json, 2026-07-28"
    ),
}


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of an upstream version: of '1:4.5.3-1' those of 4.5.3."""
    return tuple(map(int, re.findall(r"\d+", re.sub(r"^\d+:|[-+~].*$", "", version))))


def is_below(version: str, minimum: Minimum) -> str:
    """Return the version that is needed instead, '' when the version is good enough.

    Args:
        version: as the package or the driver says it; without a number it is none, and nothing is said of it.
        minimum: an entry of MINIMUMS.
    """
    found, known = _numbers(version), [_numbers(least) for least in minimum.least]
    if not found or found >= max(known):
        return ""
    if len(known) == 1:
        return minimum.least[0]
    own = [least for least, numbers in zip(minimum.least, known, strict=True) if numbers[0] == found[0]]
    if own:
        return own[0] if found < _numbers(own[0]) else ""
    # A branch of its own between or below these gets no fixes any more; a newer branch than all was let pass above.
    return next(least for least, numbers in zip(minimum.least, known, strict=True) if numbers > found)
