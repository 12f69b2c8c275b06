# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Create the dossier of a node from validation reports, Slurm's accounting, the node and the site's records.

Unknown values are None, with the reason in `not_known`. Times are seconds since 1970.

The score detects lemon nodes: machines that fail repeatedly although each repair seems successful. The signals are
those of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters" (arXiv:2410.21680),
section IV: xid_cnt, tickets (here: validations with the node as culprit), out_count, multi_node_node_fails and
single_node_node_fails. excl_jobid_count is omitted because Slurm's accounting does not record it, and
single_node_node_failure_rate because it would require reading all jobs. The maximum of each signal is below the limit,
so that a lemon node has at least two.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.common.printable import printable
from ..engine.report.report_reader import culprits, everyone
from ..engine.report.tested_systems import numbered_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..engine.report.report_types import ReadReport

REPLACED = "replaced"
_DAY_S = 86400
Data = dict[str, Any]
LIMIT = 6
WINDOW_DAYS = 28


def seconds(text: str) -> int:
    """Return an ISO 8601 time as seconds since 1970, or 0 if it is invalid; the default time zone is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return 0
    return int((found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp())


def read_records(text: str) -> tuple[list[Data], int]:
    """Return the site's node records, oldest first, and the number of damaged lines.

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
    """Return the serial number or ID of a machine, otherwise of its GPUs or NICs."""
    known = list(parts)
    for kind, key in (("machine", "serial"), ("machine", "id"), ("gpu", "serial"), ("gpu", "id"), ("nic", "id")):
        numbers = sorted({part[key] for part in known if part["kind"] == kind and part[key]})
        if numbers:
            return numbers[0] if kind == "machine" else f"{kind} {', '.join(numbers)}"
    return ""


def validations_of(node: str, reports: Iterable[tuple[str, ReadReport]]) -> list[Data]:
    """Return the result of each report that mentions a node, oldest first.

    Args:
        node: name of the node.
        reports: folder name and report, oldest first.
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
    """Return a validation's verdict on the node: PASS if it passed a test and is not a culprit."""
    if validation["blamed"]:
        return "FAIL"
    if not validation["tested"]:
        return "not tested"
    return "PASS" if any(test["verdict"] == "PASS" for test in validation["tests"]) else "INCONCLUSIVE"


def replaced_at(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the time of the last replacement of each node's machine, in seconds since 1970."""
    return {each["node"]: each["at"] for each in records if each["event"] == REPLACED}


def _score(node: str, slurm: Mapping[str, Any], blames: Iterable[int], now: int, replaced: int) -> Score:
    """Return the score of a node, without events before the last replacement of its machine."""
    since = max(now - WINDOW_DAYS * _DAY_S, replaced)
    return lemon_score(slurm.get("events"), slurm.get("jobs"), blames, node=node, since=since)


def score_data(score: Score, limit: int) -> Data:
    """Return a score as JSON-compatible data."""
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


def dossier(  # noqa: PLR0913 - one for each data source
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
    """Return the dossier of a node.

    Args:
        node: name of the node.
        slurm: the `history` of the slurm_node module; empty if the controller did not answer.
        machine: the `record` of the node_info module; None if the node did not answer.
        reports: folder name and report, oldest first.
        records: the site's records from `read_records`.
        not_known: sources that could not be queried, with the reason.
        now: seconds since 1970.
        limit: minimum score of a lemon node.
    """
    validations = validations_of(node, reports)
    # Reports from before the replacement describe the previous machine.
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


def node_lines(  # noqa: PLR0913 - one for each data source
    nodes: Sequence[str],
    *,
    slurm: Mapping[str, Any],
    reports: Sequence[tuple[str, ReadReport]],
    records: Sequence[Mapping[str, Any]],
    now: int,
    limit: int = LIMIT,
) -> list[Data]:
    """Return state, last validation and score of each node, in the given order."""
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
    """Group events and failed jobs by node."""
    found: dict[str, dict[str, list[Any]]] = {"events": {}, "jobs": {}}
    for each in slurm.get("events") or ():
        found["events"].setdefault(each["node"], []).append(each)
    for each in slurm.get("jobs") or ():
        for node in each["failed_nodes"]:
            found["jobs"].setdefault(node, []).append(each)
    return found


class Signal(NamedTuple):
    """A signal of the score: points per occurrence, maximum points, and the required data source."""

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


# When a drained node goes down, Slurm's accounting ends one event and starts another: they are one outage.
_SAME_OUTAGE_S = 1


class Score(NamedTuple):
    """The score of a node.

    Attributes:
        points: the sum.
        counts: occurrences of each signal; None if its source is unknown.
        since: start of the period, seconds since 1970.
    """

    points: int
    counts: Mapping[str, int | None]
    since: int

    @property
    def missing(self) -> list[str]:
        """Return the signals whose source is unknown."""
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
        events: outages of the node; None if unknown.
        jobs: failed jobs; None if unknown.
        blames: start of each validation with the node as culprit, seconds since 1970; None if unknown.
        node: name of the node.
        since: start of the period, not before the last replacement of the machine.
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
    """Return whether the node, and not the job itself, caused a job's failure."""
    return node in job["failed_nodes"] and job["state"] in {"NODE_FAIL", "BOOT_FAIL"}


def _outages(events: Sequence[Mapping[str, Any]]) -> int:
    """Count a node's unplanned outages, without busbar's planned drains."""
    count, ended = 0, None
    for each in events:
        reason = str(each["reason"])
        follows = ended is not None and (each["from"] or 0) - ended <= _SAME_OUTAGE_S
        planned = reason.startswith(_OWN)
        count += not follows and not planned
        # Events directly after a planned drain, such as its reboot, belong to it.
        ended = each["until"] if each["until"] is not None else float("inf")
    return count
