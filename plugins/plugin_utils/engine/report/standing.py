# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes are known to be good: those that passed in the newest report that judged them, with what they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .checks import COLLECTIVE
from .data import everyone, faulty_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .model import ReadReport

__all__ = ["standing"]


def standing(reports: Sequence[ReadReport], hardware: Mapping[str, str], cluster: str) -> dict[str, bool]:
    """Return for each node that was judged whether its newest report shows it to be good.

    Good is who took part in a test that passed, and is not to blame for one that failed. A node that only took part in
    tests that failed is not known to be good, whoever was to blame.

    Args:
        reports: as `report.data.normalised` gives them, the oldest first.
        hardware: node to name of its profile; tests of other hardware say nothing about it.
        cluster: the name of the cluster; reports of others say nothing.
    """
    found: dict[str, bool] = {}
    for report in reports:
        if report["cluster"] != cluster:
            continue
        judged: dict[str, bool] = {}
        for test in report["tests"]:
            if test["kind"] != COLLECTIVE or test["verdict"] not in {"PASS", "FAIL"}:
                continue
            for node in everyone(test):
                if test["hardware"] == (hardware.get(node) or ""):
                    judged[node] = judged.get(node, False) or test["verdict"] == "PASS"
        guilty = faulty_nodes(report)
        found |= {node: good and node not in guilty for node, good in judged.items()}
        found |= dict.fromkeys(guilty, False)
    return found
