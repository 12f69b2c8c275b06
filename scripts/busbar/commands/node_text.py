"""Text output of `busbar node`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Data = dict[str, Any]
_VERSIONS = {"system": "system", "kernel": "kernel", "driver": "driver", "cuda": "CUDA", "dcgm": "DCGM"}
_SIGNALS = {
    "xid_cnt": "different Xids that drained the node",
    "out_count": "drains",
    "blame_count": "validations that blamed the node",
    "multi_node_node_fails": "multi-node jobs that failed because of the node",
    "single_node_node_fails": "single-node jobs that failed because of the node",
}
_MOST = 50


def _when(at: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else "not known"


def dossier_text(data: Data) -> Iterator[str]:
    """Yield the lines of a dossier."""
    yield f"{data['node']}  {_state(data['slurm'])}"
    yield f"lemon score  {_score(data['score'])}"
    for name, signal in data["score"]["signals"].items():
        count = "not known" if signal["count"] is None else signal["count"]
        yield f"  {_SIGNALS[name]} ({name}): {count}, points {signal['points']}"
    yield from _machine(data)
    yield from _section("validations", [_validation(each) for each in data["validations"]], "")
    health = data["health"]
    yield from _section("health check", None if health is None else [_health(each) for each in health], "on the node")
    drains = data["drains"]
    yield from _section("out of service", None if drains is None else [_drain(each) for each in drains], "accounting")
    jobs = data["jobs"]
    yield from _section("failed jobs", None if jobs is None else [_job(each) for each in jobs], "accounting")
    yield from _unknown(data["not_known"])


def list_text(data: Data) -> Iterator[str]:
    """Yield one line per node, and a second line with the reason for lemons."""
    nodes = data["nodes"]
    width = max((len(each["node"]) for each in nodes), default=0)
    if not nodes:
        yield f"no node has a lemon score of {data['limit']} or more"
    for each in nodes:
        found = each["validation"]
        last = f"{found['verdict']} {_when(found['at'])}" if found else "never validated"
        mark = "+" if each["score"]["not_known"] else " "
        yield f"{each['node']:<{width}}  {each['score']['points']:>2}{mark}  {last:<30}  {_state(each['slurm'])}"
        if data["lemons"]:
            seen = [(name, signal["count"]) for name, signal in each["score"]["signals"].items() if signal["count"]]
            yield f"{'':<{width}}  {', '.join(f'{_SIGNALS[name]}: {count}' for name, count in seen)}"
    if any(each["score"]["not_known"] for each in nodes):
        yield "+: minimum, because not all signals are known"
    yield from _unknown(data["not_known"])


def _state(found: Data | None) -> str:
    if not found:
        return "state unknown"
    words = f"{found['state']} ({found['flags']})"
    if found["reason"]:
        signed = f", {found['by']}" if found["by"] else ""
        words += f": {found['reason']} [{_when(found['since'])}{signed}]"
    return words


def _score(score: Data) -> str:
    words = f"{score['points']} of {score['limit']}" + (": a LEMON" if score["lemon"] else "")
    lacking = ", ".join(score["not_known"])
    unknown = f"; a minimum, because some data is unknown: {lacking}" if lacking else ""
    return f"{words}, since {_when(score['since'])}{unknown}"


def _machine(data: Data) -> Iterator[str]:
    machine, versions = data["machine"], data["versions"]
    yield f"machine  {machine['serial'] or 'reports no serial number'}" + (
        f" (from {machine['source']})" if machine["source"] else ""
    )
    for part in machine["parts"]:
        numbers = [f"serial {part['serial']}"] if part["serial"] else []
        numbers += [part["id"]] if part["id"] else []
        yield f"  {part['kind']:<8} {part['name']}: {', '.join(numbers)}"
    if versions:
        slurm = [f"Slurm {data['slurm']['version']}"] if data["slurm"] and data["slurm"]["version"] else []
        known = [f"{_VERSIONS.get(key, key.replace('_', ' '))} {value}" for key, value in versions.items()]
        yield f"versions  {', '.join([*known, *slurm])}"
    yield f"booted  {_when(data['booted'])}"
    for each in data["changes"]:
        yield f"{each['event']}  {_when(each['at'])}: {_change(each)}"


def _change(each: Data) -> str:
    by = f", by {each['by']}" if each.get("by") else ""
    if "serial_after" not in each:
        return f"passed its validation{by}"
    former, present = (each.get(key) or "not known" for key in ("serial_before", "serial_after"))
    return f"serial {former} -> {present}{by}"


def _validation(each: Data) -> str:
    words = f"{_when(each['at'])}  {each['of_node']}  {each['report']}"
    if each["reason"]:
        words += f": {each['reason']}"
    shown = [
        f"{test['stage']} {test['verdict']}" + (f" {test['busbw']:.4g} GB/s" if test["busbw"] is not None else "")
        for test in each["tests"]
    ]
    return f"{words}  ({'; '.join(shown[:6])}{'; …' if len(shown) > 6 else ''})" if shown else words  # noqa: PLR2004 - a line


def _health(each: Data) -> str:
    parts = (each.get("severity"), each.get("check"), each.get("problem"))
    return f"{_when(each['at'])}  {each['event']}  {' '.join(str(part) for part in parts if part)}".rstrip()


def _drain(each: Data) -> str:
    until = _when(each["until"]) if each["until"] else "now"
    by = f" [{each['by']}]" if each["by"] else ""
    return f"{_when(each['from'])} to {until}  {each['state']}  {each['reason'] or 'no reason'}{by}"


def _job(each: Data) -> str:
    own = "  this node failed" if each["by_node"] and each["state"] in {"NODE_FAIL", "BOOT_FAIL"} else ""
    job = f"{each['job']} of {each['user']}"
    return f"{_when(each['end'])}  {job}  {each['state']} {each['exit']}  {each['nodes']}{own}"


def _section(title: str, lines: Sequence[str] | None, source: str) -> Iterator[str]:
    """Yield a title and the newest lines, or a note if the data of the section is unknown."""
    if lines is None:
        yield f"{title}  not known ({source})"
        return
    yield f"{title}  {len(lines) or 'none'}"
    if len(lines) > _MOST:
        yield f"  … {len(lines) - _MOST} earlier entries: use --format json"
    for line in lines[-_MOST:]:
        yield f"  {line}"


def _unknown(found: Data) -> Iterator[str]:
    for key, why in found.items():
        yield f"not known: {key}: {why}"
