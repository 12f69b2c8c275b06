# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""All that is known of a node: from reports of validations, Slurm, the node itself, and the site's records.

Pure. What is not known is None, and `not_known` says why. Times are seconds since 1970.

The score says how much of a lemon a node is: a machine that fails again and again, though each time it looks repaired.
The signals are those of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters"
(arXiv:2410.21680), section IV: xid_cnt, tickets, out_count, multi_node_node_fails and single_node_node_fails. For its
tickets stand the validations that named the node a culprit. Left out are excl_jobid_count, which Slurm's accounting
does not keep, and single_node_node_failure_rate, for which each job would have to be read.

No signal alone reaches the limit: each counts up to a most, and the limit is above each of these.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.common.printable import printable
from ..engine.report.data import culprits, everyone
from ..engine.report.environment import numbered_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..engine.report.model import ReadReport

__all__ = [
    "LIMIT",
    "REPLACED",
    "SIGNALS",
    "WINDOW_DAYS",
    "Score",
    "Signal",
    "dossier",
    "lemon_score",
    "node_lines",
    "read_records",
    "replaced_at",
    "seconds",
    "serial_of",
    "validations_of",
]

REPLACED = "replaced"
_DAY_S = 86400
Data = dict[str, Any]
LIMIT = 6
WINDOW_DAYS = 28


def seconds(text: str) -> int:
    """Return an ISO 8601 time as seconds since 1970, 0 when it is none; UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return 0
    return int((found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp())


def read_records(text: str) -> tuple[list[Data], int]:
    """Return the site's records of nodes, the oldest first, and how many lines are damaged.

    Each line is a JSON object with `at`, `node` and `event`.
    """
    found, damaged = [], 0
    for line in filter(str.strip, text.splitlines()):
        try:
            entry = json.loads(line)
            entry = {**entry, "at": int(entry["at"]), "node": str(entry["node"]), "event": str(entry["event"])}
        except (ValueError, TypeError, KeyError):
            damaged += 1
            continue
        found.append(entry)
    return sorted(found, key=lambda each: each["at"]), damaged


def serial_of(parts: Iterable[Mapping[str, str]]) -> str:
    """Return what tells a machine from all others: its serial number, else the numbers of its GPUs or NICs."""
    known = list(parts)
    for kind, key in (("machine", "serial"), ("machine", "id"), ("gpu", "serial"), ("gpu", "id"), ("nic", "id")):
        numbers = sorted({part[key] for part in known if part["kind"] == kind and part[key]})
        if numbers:
            return numbers[0] if kind == "machine" else f"{kind} {', '.join(numbers)}"
    return ""


def validations_of(node: str, reports: Iterable[tuple[str, ReadReport]]) -> list[Data]:
    """Return what each report says of a node, the oldest first; those that say nothing of it are left out.

    Args:
        node: its name.
        reports: name of the folder and report, the oldest first.
    """
    found = []
    for name, report in reports:
        tests = [
            {
                "name": test["name"],
                "stage": test["stage"],
                "verdict": test["verdict"],
                "nodes": everyone(test),
                "busbw": test["measured_busbw"],
                "floor": test["floor"],
            }
            for test in report["tests"]
            if node in everyone(test)
        ]
        blamed = "; ".join(item["reason"] for item in culprits(report) if node in item["nodes"])
        is_blamed = any(node in item["nodes"] for item in culprits(report))
        left_out = report["left_out"].get(node, "")
        if tests or is_blamed or left_out:
            found.append(
                {
                    "report": name,
                    "at": seconds(report["started"]),
                    "verdict": report["verdict"],
                    "blamed": is_blamed,
                    "reason": blamed or left_out,
                    "tested": bool(tests),
                    "tests": tests,
                    "parts": numbered_parts(report).get(node, []),
                }
            )
    return found


def _own_verdict(validation: Mapping[str, Any]) -> str:
    """Return what a validation says of the node itself: it passed when it passed a test and nobody blames it."""
    if validation["blamed"]:
        return "FAIL"
    if not validation["tested"]:
        return "not tested"
    return "PASS" if any(test["verdict"] == "PASS" for test in validation["tests"]) else "INCONCLUSIVE"


def replaced_at(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return when the machine behind each name was replaced the last time, seconds since 1970."""
    return {each["node"]: each["at"] for each in records if each["event"] == REPLACED}


def _score(node: str, slurm: Mapping[str, Any], blames: Iterable[int], now: int, replaced: int) -> Score:
    """Return the score of a node; what was before its machine was replaced does not count."""
    since = max(now - WINDOW_DAYS * _DAY_S, replaced)
    return lemon_score(slurm.get("events"), slurm.get("jobs"), blames, node=node, since=since)


def score_data(score: Score, limit: int) -> Data:
    """Return a score as data."""
    return {
        "points": score.points,
        "limit": limit,
        "lemon": score.points >= limit,
        "since": score.since,
        "signals": {
            name: {"count": count, "points": min(SIGNALS[name].points * (count or 0), SIGNALS[name].most)}
            for name, count in score.counts.items()
        },
        "not_known": score.missing,
    }


def dossier(  # noqa: PLR0913 - one for each source
    node: str,
    *,
    slurm: Mapping[str, Any],
    machine: Mapping[str, Any] | None,
    reports: Sequence[tuple[str, ReadReport]],
    records: Sequence[Mapping[str, Any]],
    not_known: Mapping[str, str],
    now: int,
    limit: int = LIMIT,
) -> Data:
    """Return all that is known of a node.

    Args:
        node: its name.
        slurm: the `history` of the module slurm_node; empty when the controller did not answer.
        machine: the `record` of the module node_info; None when the node did not answer.
        reports: name of the folder and report, the oldest first.
        records: those of the site, as `read_records` gives them.
        not_known: what could not be asked, and why.
        now: seconds since 1970.
        limit: from how many points on a node is a lemon.
    """
    validations = validations_of(node, reports)
    # A report before the machine was replaced is about the former one.
    begin = replaced_at(records).get(node, 0)
    with_parts = [each for each in validations if each["parts"] and each["at"] >= begin]
    source = "the node" if machine else f"report {with_parts[-1]['report']}" if with_parts else ""
    parts = list((machine or {}).get("parts") or (with_parts[-1]["parts"] if with_parts else []))
    blames = [each["at"] for each in validations if each["blamed"]]
    score = _score(node, slurm, blames, now, begin)
    unknown = {f"Slurm: {key}": why for key, why in (slurm.get("problems") or {}).items()}
    unknown |= {f"{node}: {key}": why for key, why in ((machine or {}).get("problems") or {}).items()}
    jobs = slurm.get("jobs")
    return {
        "node": node,
        "at": now,
        "score": score_data(score, limit),
        "slurm": (slurm.get("nodes") or {}).get(node),
        "machine": {"source": source, "serial": serial_of(parts), "parts": parts},
        "versions": dict((machine or {}).get("versions") or {}),
        "booted": (machine or {}).get("booted") or ((slurm.get("nodes") or {}).get(node) or {}).get("booted"),
        "changes": [dict(each) for each in records if each["node"] == node],
        "validations": [{**each, "of_node": _own_verdict(each)} for each in validations],
        "health": None if machine is None else list(machine.get("history") or []),
        "drains": None if slurm.get("events") is None else [each for each in slurm["events"] if each["node"] == node],
        "jobs": None if jobs is None else [{**each, "by_node": node in each["failed_nodes"]} for each in jobs],
        "not_known": {key: printable(why) for key, why in {**not_known, **unknown}.items()},
    }


def node_lines(  # noqa: PLR0913 - one for each source
    nodes: Sequence[str],
    *,
    slurm: Mapping[str, Any],
    reports: Sequence[tuple[str, ReadReport]],
    records: Sequence[Mapping[str, Any]],
    now: int,
    limit: int = LIMIT,
) -> list[Data]:
    """Return each node with state, last validation and score, in the order given; each source is read once."""
    last: dict[str, Data] = {}
    blames: dict[str, list[int]] = {}
    for name, report in reports:
        at = seconds(report["started"])
        guilty = {node for item in culprits(report) for node in item["nodes"]}
        passed = {node for test in report["tests"] if test["verdict"] == "PASS" for node in everyone(test)}
        tested = {node for test in report["tests"] for node in everyone(test)}
        for node in guilty:
            blames.setdefault(node, []).append(at)
        for node in tested | guilty:
            verdict = "FAIL" if node in guilty else "PASS" if node in passed else "INCONCLUSIVE"
            last[node] = {"report": name, "at": at, "verdict": verdict}
    grouped, replaced = _by_node(slurm), replaced_at(records)
    found = []
    for node in nodes:
        own = {key: None if slurm.get(key) is None else grouped[key].get(node, []) for key in ("events", "jobs")}
        score = _score(node, own, blames.get(node, []), now, replaced.get(node, 0))
        state = (slurm.get("nodes") or {}).get(node)
        found.append({"node": node, "slurm": state, "validation": last.get(node), "score": score_data(score, limit)})
    return found


def _by_node(slurm: Mapping[str, Any]) -> dict[str, dict[str, list[Any]]]:
    """Return events and jobs by the nodes that they are about."""
    found: dict[str, dict[str, list[Any]]] = {"events": {}, "jobs": {}}
    for each in slurm.get("events") or ():
        found["events"].setdefault(each["node"], []).append(each)
    for each in slurm.get("jobs") or ():
        for node in each["failed_nodes"]:
            found["jobs"].setdefault(node, []).append(each)
    return found


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
