# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Which machines, GPUs and NICs a report is about, by the numbers of their makers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....module_utils.hardware.machine_parts import Part
    from .model import ReadReport

__all__ = ["counted_parts", "numbered_parts"]

_WORDS = {"machine": "machine(s)", "gpu": "GPU(s)", "nic": "NIC(s)"}


def numbered_parts(report: ReadReport) -> dict[str, list[Part]]:
    """Return the parts of each node that any test of a report names."""
    found: dict[str, list[Part]] = {}
    for test in report["tests"]:
        for node, parts in test["parts"].items():
            known = found.setdefault(node, [])
            known += [part for part in parts if part not in known]
    return dict(sorted(found.items()))


def counted_parts(parts: Mapping[str, list[Part]]) -> str:
    """Return in words how many parts of each kind there are; an empty text without any."""
    found = Counter(part["kind"] for each in parts.values() for part in each)
    return ", ".join(f"{found[kind]} {words}" for kind, words in _WORDS.items() if found[kind])
