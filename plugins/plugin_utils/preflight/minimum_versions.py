# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Oldest versions of GPU software without known vulnerabilities, with the bulletin for each.

The table is valid as of AS_OF; a newer bulletin changes one line. It contains only software from NVIDIA's repositories,
because distributions fix old versions without changing the upstream number.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["AS_OF", "MINIMUMS", "Minimum", "is_below"]

AS_OF = "2026-08-19"
_BULLETINS = "https://github.com/NVIDIA/product-security/blob/main/2026"


class Minimum(NamedTuple):
    """The oldest version of a program without known vulnerabilities.

    Attributes:
        name: display name.
        least: version; for the driver, one for each supported branch.
        option: the inventory option that selects the version.
        source: the bulletin and its date.
    """

    name: str
    least: tuple[str, ...]
    option: str
    source: str


# Keys as in `versions` of the module node_info.
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
    """Return the numbers of the upstream version: (4, 5, 3) for '1:4.5.3-1'."""
    return tuple(map(int, re.findall(r"\d+", re.sub(r"^\d+:|[-+~].*$", "", version))))


def is_below(version: str, minimum: Minimum) -> str:
    """Return the required version, or '' if the version is new enough.

    Args:
        version: as reported by the package or driver; ignored if it contains no number.
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
    # Branches between or below the listed ones no longer get fixes; newer branches were accepted above.
    return next(least for least, numbers in zip(minimum.least, known, strict=True) if numbers > found)
