"""Repairs of nodes: which node gets one, how often it had one, and the history that says so. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ..slurm.jobs import jobs_on, parse_nodes
from .finding import ISOLATE, RESET
from .slurm_node import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "_BEGAN",
    "_REPAIR_REASON",
    "_WINDOW_S",
    "Record",
    "bounded",
    "choose",
    "lines_of",
    "read_records",
    "repair_plan",
]

# What the reason of a node that is being repaired begins with.
_REPAIR_REASON = "busbar: repair"
_BEGAN = "began"
_WINDOW_S = 7 * 24 * 3600
# A cluster of a thousand nodes with one repair each per week fills this in a year.
_MOST_RECORDS = 100_000
_KEPT_S = 365 * 24 * 3600
_LONGEST = 400
# Checks whose findings a reset of the GPUs cures; all others take a reboot.
_OF_GPUS = frozenset({"gpu", "gpu_links", "pcie_replays", "nvlink_crc", "xid", "dcgm"})


class Record(NamedTuple):
    """A line of the history.

    Attributes:
        time: seconds since 1970.
        node: its name.
        event: `began`, `repaired`, `failed` or `isolated`.
        how: `reset` (of the GPUs) or `reboot`; empty where nothing was done.
        reason: why the node was drained, or what failed.
    """

    time: float
    node: str
    event: str
    how: str = ""
    reason: str = ""


def read_records(text: str) -> list[Record]:
    """Return the records of the history; a line that was cut off is left out."""
    found = []
    for line in text.splitlines():
        try:
            each = json.loads(line)
            found.append(Record(float(each["time"]), *(str(each.get(key, "")) for key in Record._fields[1:])))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def bounded(records: Sequence[Record], now: float) -> list[Record]:
    """Return the records that are kept: those of a year, and not more than the file may have."""
    return [each for each in records if now - each.time <= _KEPT_S][-_MOST_RECORDS:]


def lines_of(records: Iterable[Record]) -> str:
    """Return records as JSON, one a line."""
    return "".join(
        json.dumps({**each._asdict(), "reason": " ".join(each.reason.split())[:_LONGEST]}) + "\n" for each in records
    )


def repair_plan(
    asked: Sequence[str], cluster: Mapping[str, Sequence[str]], seen: Mapping[str, str], history: str, now: float
) -> dict[str, Any]:
    """Return which nodes may be repaired.

    Args:
        asked: their names; empty for all that the health check has drained.
        cluster: `compute`, the compute nodes of the inventory, and `limited`, the hosts of this run.
        seen: `nodes`, the output of ``sinfo -h -N -a -o '%N|%T|%E'``, and `queue`, that of ``squeue -h -o '%i|%u|%N'``.
        history: the text of the history.
        now: seconds since 1970.

    Returns:
        `problems` (then nothing else counts), `nodes` with `reason`, `repairs` (of the last seven days), `severity` (of
        one whose repair was cut off or failed) and `goes_on`; and `skipped` with reasons.
    """
    known = parse_nodes(seen["nodes"])
    strange = [name for name in asked if name not in cluster["compute"] or name not in known]
    if strange:
        where = "is no compute node of the inventory (slurm_compute) that Slurm knows"
        return {"problems": [f"repair_nodes: {', '.join(strange)} {where}"]}
    records = read_records(history)
    jobs = jobs_on(seen["queue"], known)
    nodes: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    for name in asked or [name for name in cluster["compute"] if name in known]:
        state, reason = known[name]
        goes_on = reason.startswith(_REPAIR_REASON)
        ours = state.startswith(("drain", "down")) and (goes_on or reason.startswith(PREFIX))
        if not ours:
            if asked:
                skipped[name] = f"{state}{': ' + reason if reason else ''}; the health check did not drain it"
        elif reason.startswith(f"{PREFIX} {ISOLATE}"):
            skipped[name] = f"{reason}; its hardware is to be replaced"
        elif name not in cluster["limited"]:
            skipped[name] = "outside of --limit"
        elif name in jobs:
            skipped[name] = f"{', '.join(jobs[name])}; it is repaired by a run after that"
        else:
            mine = [each for each in records if each.node == name]
            nodes[name] = {
                "reason": reason,
                "repairs": sum(each.event == _BEGAN and now - each.time < _WINDOW_S for each in mine),
                "severity": RESET if mine and mine[-1].event in {_BEGAN, "failed"} else "",
                "goes_on": goes_on and bool(mine) and mine[-1].event == _BEGAN,
            }
    return {"problems": [], "nodes": nodes, "skipped": skipped}


def choose(node: Mapping[str, Any], note: str, look: str, allowed: str, limit: int) -> dict[str, str]:
    """Return what is done with a node: `do` ('reset', 'reboot', 'isolate' or 'skip') and `why`.

    Args:
        node: of `repair_plan`.
        note: the note of the health check on the node, whose first line is the severity of its drain.
        look: what the health check finds now, as JSON; empty where it does not run.
        allowed: `node_health_repair`, 'none', 'reset' or 'reboot'.
        limit: how many repairs a node gets in seven days.
    """
    severity = note.partition("\n")[0].strip() or node["severity"]
    try:
        findings = json.loads(look)["findings"] if look.strip() else []
    except (ValueError, KeyError, TypeError):
        findings = []
    checks = {each["check"] for each in findings if each["severity"] == RESET}
    by_reset = bool(checks) and checks <= _OF_GPUS
    refusals = {
        f"its severity is {ISOLATE}: the hardware is to be replaced": severity == ISOLATE
        or any(each["severity"] == ISOLATE for each in findings),
        "the health check left no note of why it drained it": severity != RESET,
        "node_health_repair is none": allowed == "none",
        "it takes a reboot, and node_health_repair is reset": allowed == "reset" and not by_reset,
    }
    if why := next((words for words, holds in refusals.items() if holds), ""):
        return {"do": "skip", "why": why}
    if node["repairs"] >= limit and not node["goes_on"]:
        return {"do": "isolate", "why": f"{node['repairs']} repairs in 7 days did not last: {node['reason']}"}
    return {"do": "reset" if by_reset else "reboot", "why": node["reason"]}
