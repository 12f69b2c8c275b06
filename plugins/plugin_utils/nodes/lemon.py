# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""How much of a lemon a node is: a machine that fails again and again, though each time it looks repaired.

The signals are those of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters"
(arXiv:2410.21680), section IV: xid_cnt, tickets, out_count, multi_node_node_fails and single_node_node_fails. For its
tickets stand the validations that named the node a culprit. Left out are excl_jobid_count, which Slurm's accounting
does not keep, and single_node_node_failure_rate, for which each job would have to be read.

No signal alone reaches the limit: each counts up to a most, and the limit is above each of these.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["LIMIT", "SIGNALS", "WINDOW_DAYS", "Score", "Signal", "lemon_score"]

LIMIT = 6
WINDOW_DAYS = 28


class Signal(NamedTuple):
    """What counts towards the score: points for each, up to a most, and what has to be known for it."""

    points: int
    most: int
    needs: str


SIGNALS = {
    "xid_cnt": Signal(1, 3, "events"),
    "out_count": Signal(1, 3, "events"),
    "blame_count": Signal(2, 4, "reports"),
    "multi_node_node_fails": Signal(1, 4, "jobs"),
    "single_node_node_fails": Signal(2, 4, "jobs"),
}


_HEALTH, _OWN = "busbar health:", "busbar:"


_XID = re.compile(r"\bXid (\d+)\b")


# Of a node that goes from drained to down accounting ends one event when it begins the next: that is one outage.
_SAME_OUTAGE_S = 1


class Score(NamedTuple):
    """The score of a node.

    Attributes:
        points: the sum.
        counts: how often each signal was seen; None where it is not known.
        since: from when on it counts, seconds since 1970.
    """

    points: int
    counts: Mapping[str, int | None]
    since: int

    @property
    def missing(self) -> list[str]:
        """The signals that are not known."""
        return [name for name, count in self.counts.items() if count is None]


def lemon_score(
    events: Sequence[Mapping[str, Any]] | None,
    jobs: Sequence[Mapping[str, Any]] | None,
    blames: Iterable[int] | None,
    *,
    node: str,
    since: int,
) -> Score:
    """Return the score of a node.

    Args:
        events: its times out of service, as slurm.node_history gives them; None when they are not known.
        jobs: jobs that failed; None likewise.
        blames: when each validation that named it a culprit began, seconds since 1970.
        node: its name.
        since: from when on anything counts; when the machine was replaced that is then.
    """
    counts: dict[str, int | None] = dict.fromkeys(SIGNALS)
    if events is not None:
        own = [each for each in events if each["node"] == node and (each["from"] or 0) >= since]
        xids = {xid for each in own if each["reason"].startswith(_HEALTH) for xid in _XID.findall(each["reason"])}
        counts |= {"xid_cnt": len(xids), "out_count": _outages(own)}
    if jobs is not None:
        mine = [each for each in jobs if _broke(each, node) and (each["end"] or 0) >= since]
        alone = sum(each["count"] == 1 for each in mine)
        counts |= {"multi_node_node_fails": len(mine) - alone, "single_node_node_fails": alone}
    if blames is not None:
        counts["blame_count"] = sum(each >= since for each in blames)
    points = sum(min(SIGNALS[name].points * (count or 0), SIGNALS[name].most) for name, count in counts.items())
    return Score(points, counts, since)


def _broke(job: Mapping[str, Any], node: str) -> bool:
    """Return whether a job failed because of a node; one that failed by its own doing did not."""
    return node in job["failed_nodes"] and job["state"] in {"NODE_FAIL", "BOOT_FAIL"}


def _outages(events: Sequence[Mapping[str, Any]]) -> int:
    """Return how often a node went out of service, without what busbar plans or says for itself elsewhere."""
    count, ended = 0, None
    for each in events:
        reason = str(each["reason"])
        follows = ended is not None and (each["from"] or 0) - ended <= _SAME_OUTAGE_S
        planned = reason.startswith(_OWN)
        count += not follows and not planned
        # What follows a planned drain, such as the reboot, is of that plan.
        ended = each["until"] if each["until"] is not None else float("inf")
    return count
