"""Choose the nodes to repair, and record their repairs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from ..slurm.busbar_drain_reasons import REPAIR_REASON
from ..slurm.nodes_and_jobs import jobs_on, parse_nodes
from .drain_policy import PREFIX
from .finding import ISOLATE, RESET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "BEGAN",
    "Record",
    "bounded",
    "choose",
    "lines_of",
    "read_records",
    "repair_plan",
]

BEGAN = "began"
_WINDOW_S = 7 * 24 * 3600
# A cluster of a thousand nodes with one repair per node and week exceeds this in a year.
_MOST_RECORDS = 100_000
_KEPT_S = 365 * 24 * 3600
_LONGEST = 400
# Findings of these checks are fixed by a GPU reset, all others by a reboot.
_OF_GPUS = frozenset({"gpu", "gpu_links", "pcie_replays", "nvlink_crc", "xid", "dcgm"})


class Record(NamedTuple):
    """A line of the repair history.

    Attributes:
        time: seconds since 1970.
        node: name of the node.
        event: `began`, `repaired`, `failed` or `isolated`.
        how: `reset` (of the GPUs) or `reboot`; empty without a repair.
        reason: drain reason of the node, or the error.
    """

    time: float
    node: str
    event: str
    how: str = ""
    reason: str = ""


def read_records(text: str) -> list[Record]:
    """Return the records of the history; truncated lines are ignored."""
    found = []
    for line in text.splitlines():
        try:
            each = json.loads(line)
            found.append(Record(float(each["time"]), *(str(each.get(key, "")) for key in Record._fields[1:])))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def bounded(records: Sequence[Record], now: float) -> list[Record]:
    """Return the records to keep: one year, up to the maximum length of the file."""
    return [each for each in records if now - each.time <= _KEPT_S][-_MOST_RECORDS:]


def lines_of(records: Iterable[Record]) -> str:
    """Return records as JSON lines."""
    return "".join(
        json.dumps({**each._asdict(), "reason": " ".join(each.reason.split())[:_LONGEST]}) + "\n" for each in records
    )


def repair_plan(
    requested: Sequence[str], cluster: Mapping[str, Sequence[str]], seen: Mapping[str, str], history: str, now: float
) -> dict[str, Any]:
    """Return the nodes that may be repaired.

    Args:
        requested: names of nodes; empty for all nodes that the health check drained.
        cluster: `compute`, the compute nodes of the inventory, and `limited`, the hosts of this run.
        seen: outputs of ``sinfo -h -N -a -o '%N|%T|%E'`` (`nodes`) and ``squeue -h -o '%i|%u|%N'`` (`queue`).
        history: text of the history.
        now: seconds since 1970.

    Returns:
        `problems` (if there are any, ignore the rest), `nodes` with `reason`, `repairs` (in the last seven days),
        `severity` (after an interrupted or failed repair) and `goes_on`; and `skipped` nodes with reasons.
    """
    known = parse_nodes(seen["nodes"])
    strange = [name for name in requested if name not in cluster["compute"] or name not in known]
    if strange:
        where = "not compute nodes of the inventory (slurm_compute) or not nodes in Slurm"
        return {"problems": [f"repair_nodes: {', '.join(strange)}: {where}"]}
    records = read_records(history)
    jobs = jobs_on(seen["queue"], known)
    nodes: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    for name in requested or [name for name in cluster["compute"] if name in known]:
        state, reason = known[name]
        goes_on = reason.startswith(REPAIR_REASON)
        ours = state.startswith(("drain", "down")) and (goes_on or reason.startswith(PREFIX))
        if not ours:
            if requested:
                skipped[name] = f"{state}{': ' + reason if reason else ''}; the health check did not drain it"
        elif reason.startswith(f"{PREFIX} {ISOLATE}"):
            skipped[name] = f"{reason}; its hardware needs replacement"
        elif name not in cluster["limited"]:
            skipped[name] = "outside of --limit"
        elif name in jobs:
            skipped[name] = f"{', '.join(jobs[name])}; run again after its jobs have finished"
        else:
            mine = [each for each in records if each.node == name]
            nodes[name] = {
                "reason": reason,
                "repairs": sum(each.event == BEGAN and now - each.time < _WINDOW_S for each in mine),
                "severity": RESET if mine and mine[-1].event in {BEGAN, "failed"} else "",
                "goes_on": goes_on and bool(mine) and mine[-1].event == BEGAN,
            }
    return {"problems": [], "nodes": nodes, "skipped": skipped}


def choose(node: Mapping[str, Any], note: str, look: str, allowed: str, limit: int) -> dict[str, str]:
    """Return the action for a node: `do` ('reset', 'reboot', 'isolate' or 'skip') and `why`.

    Args:
        node: entry of `repair_plan`.
        note: content of the health check's note on the node; the first line is the severity of the drain.
        look: current findings of the health check as JSON; empty if the health check is not installed.
        allowed: `node_health_repair`, 'none', 'reset' or 'reboot'.
        limit: maximum number of repairs of a node in seven days.
    """
    severity = note.partition("\n")[0].strip() or node["severity"]
    try:
        findings = json.loads(look)["findings"] if look.strip() else []
    except (ValueError, KeyError, TypeError):
        findings = []
    checks = {each["check"] for each in findings if each["severity"] == RESET}
    by_reset = bool(checks) and checks <= _OF_GPUS
    refusals = {
        f"its severity is {ISOLATE}: the hardware needs replacement": severity == ISOLATE
        or any(each["severity"] == ISOLATE for each in findings),
        "the health check recorded no severity for the drain": severity != RESET,
        "node_health_repair is none": allowed == "none",
        "the repair needs a reboot, but node_health_repair is reset": allowed == "reset" and not by_reset,
    }
    if why := next((words for words, holds in refusals.items() if holds), ""):
        return {"do": "skip", "why": why}
    if node["repairs"] >= limit and not node["goes_on"]:
        return {"do": "isolate", "why": f"{node['repairs']} repairs in 7 days did not last: {node['reason']}"}
    return {"do": "reset" if by_reset else "reboot", "why": node["reason"]}
