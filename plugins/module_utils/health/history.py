"""What the health check of a node found and did over time: a bounded file of lines beside its state.

Runs on a node's own python3. Each line is one JSON object with `at` (seconds since 1970) and `event`: `found`,
`cleared`, `boot`, or what was done to the node in Slurm (`drain`, `resume`, `withheld`, `given_back`). Findings have
`check`, `severity` and `problem`, too.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .finding import Finding

__all__ = ["DONE", "MOST_BYTES", "NAME", "append", "entries", "keys_of", "last_entries"]

NAME = "history.jsonl"
# Some 1500 lines: months of a node that fails now and then, days of one that flaps at each look.
MOST_BYTES = 1 << 18
# What of the check's own doing is worth a line.
DONE = frozenset({"drain", "resume", "withheld", "given_back"})
# A figure that differs at each look makes no other finding. Another GPU, PCI address, MIG instance or Xid does.
_FIGURE = re.compile(r"(?<!GPU )(?<!Xid )(?<!:)\b\d+(?:\.\d+)?\b(?!:\w)")
_LONGEST = 400


def keys_of(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return findings by what makes them the same from one look to the next."""
    return {f"{each.check} {_FIGURE.sub('#', each.problem)}": each for each in findings}


def entries(  # noqa: PLR0913 - what two looks can differ in
    before: Mapping[str, Any],
    findings: Sequence[Finding],
    done: str,
    *,
    reason: str,
    booted: bool,
    whole: bool,
    now: float,
) -> list[dict[str, Any]]:
    """Return what is new since the last look, one dictionary each.

    Args:
        before: the findings of the last look, problem by key.
        findings: those of this one.
        done: what was done to the node.
        reason: in the words of Slurm, for what was done.
        booted: whether the node has been rebooted since.
        whole: whether every check answered; else nobody knows whether what is not found any more is gone.
        now: seconds since 1970.
    """
    at = round(now)
    found: list[dict[str, Any]] = [{"at": at, "event": "boot"}] if booted else []
    present = keys_of(findings)
    for key, each in present.items():
        if key not in before:
            found.append(
                {
                    "at": at,
                    "event": "found",
                    "check": each.check,
                    "severity": each.severity,
                    "problem": each.problem[:_LONGEST],
                }
            )
    for key, problem in before.items():
        if whole and key not in present:
            found.append({"at": at, "event": "cleared", "check": key.partition(" ")[0], "problem": str(problem)})
    # A drain that is withheld is so at each look.
    if done in DONE and (found or done != "withheld"):
        found.append({"at": at, "event": done, "problem": reason[:_LONGEST]})
    return found


def append(path: Path, new: Sequence[Mapping[str, Any]]) -> None:
    """Add lines; when the file has become too long, its older half goes.

    Raises:
        OSError: the disk does not take them.
    """
    if not new:
        return
    text = "".join(f"{json.dumps(each)}\n" for each in new)
    path.parent.mkdir(parents=True, exist_ok=True)
    size = path.stat().st_size if path.exists() else 0
    if size + len(text) > MOST_BYTES:
        kept = path.read_bytes()[-MOST_BYTES // 2 :].partition(b"\n")[2]
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(kept)
        temporary.replace(path)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def last_entries(path: Path, most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the last entries, the oldest first, and how many lines are damaged; none when there is no file.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        with path.open("rb") as file:
            lines = file.read(2 * MOST_BYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return [], 0
    found = []
    for line in filter(str.strip, lines):
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("at"), (int, float)) and entry.get("event"):
                found.append(entry)
    return found[-most:], sum(1 for line in lines if line.strip()) - len(found)
