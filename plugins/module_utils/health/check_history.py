"""Write and read the history of a node's health check: a size-limited file of JSON lines next to its state file.

Each line has `at` (seconds since 1970) and `event`: `found`, `cleared`, `boot`, or
the action in Slurm (`drain`, `resume`, `withheld`, `given_back`). Findings also have `check`, `severity` and `problem`.
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
# About 1500 lines: months for a node that fails occasionally, days for one whose findings change at each check.
MOST_BYTES = 1 << 18
# Actions that are recorded.
DONE = frozenset({"drain", "resume", "withheld", "given_back"})
# Ignore numbers that change between checks, but not GPU indexes, PCI addresses, MIG instances and Xids.
_FIGURE = re.compile(r"(?<!GPU )(?<!Xid )(?<!:)\b\d+(?:\.\d+)?\b(?!:\w)")
_LONGEST = 400


def keys_of(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return findings by a key that is the same in every check."""
    return {f"{each.check} {_FIGURE.sub('#', each.problem)}": each for each in findings}


def entries(  # noqa: PLR0913 - the differences between two checks
    before: Mapping[str, Any],
    findings: Sequence[Finding],
    done: str,
    *,
    reason: str,
    booted: bool,
    whole: bool,
    now: float,
) -> list[dict[str, Any]]:
    """Return the new history entries since the last check.

    Args:
        before: findings of the last check, problem by key.
        findings: findings of this check.
        done: action on the node.
        reason: drain reason of that action.
        booted: whether the node has rebooted since the last check.
        whole: whether every check has a result; otherwise no finding counts as cleared.
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
    # A withheld drain recurs at each check.
    if done in DONE and (found or done != "withheld"):
        found.append({"at": at, "event": done, "problem": reason[:_LONGEST]})
    return found


def append(path: Path, new: Sequence[Mapping[str, Any]]) -> None:
    """Append lines; drop the older half if the file is too long.

    Raises:
        OSError: the file cannot be written.
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
    """Return the last entries, oldest first, and the number of damaged lines; empty without a file.

    Raises:
        OSError: the file exists but cannot be read.
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
