"""Drain or resume the local node if necessary.

Before a drain, the node counts the drained nodes with one request to Slurm. Nodes that drain at the same moment detect
each other with a second request, and those over the limit resume. Running jobs continue.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .drain_policy import PASSES, allowed_drains, drain_reason, drained_before, node_record, records, step
from .finding import ISOLATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .finding import Finding

    Ask = Callable[[Sequence[str]], str]

__all__ = ["drain_or_resume"]

# slurmctld records drain times in whole seconds.
_SECOND_S = 1.1
_ALL = ("--oneliner", "show", "nodes")


def drain_or_resume(  # noqa: PLR0913 - inputs of the decision
    findings: Sequence[Finding],
    declared: Mapping[str, Any],
    ask: Ask,
    note: Path,
    passes: int,
    *,
    wait: Callable[[float], None] = time.sleep,
) -> str:
    """Drain or resume the node if necessary; return the action.

    Args:
        findings: findings that drain the node, most severe first.
        declared: `node`, `resume`, and `drain_percent`, the percentage of nodes that may be drained at once.
        ask: runs scontrol.
        note: path of the note that records the health check's drain and its severity.
        passes: number of consecutive checks without findings, including this one.
        wait: sleeps.

    Returns:
        The result of `step`, `nothing`, or `withheld` if too many nodes are drained.

    Raises:
        OSError: Slurm does not answer.
        ValueError: the answer cannot be parsed.
    """
    known = note.exists()
    # A node that needs a hardware replacement is not resumed automatically.
    resume = bool(declared["resume"]) and passes >= PASSES and ISOLATE not in _noted(note)
    if not findings and not (known and resume):
        return "nothing"
    node = str(declared["node"])
    done = step(
        [each.problem for each in findings], node_record(ask(["show", "node", node])), resume=resume, known=known
    )
    if done == "drain":
        return _drain(findings, declared, ask, note, wait)
    if done == "resume":
        ask(["update", f"NodeName={node}", "State=RESUME"])
    if done == "keep":
        _write(note, findings)
    elif known:
        keep_note(note, None)
    return done


def _drain(
    findings: Sequence[Finding], declared: Mapping[str, Any], ask: Ask, note: Path, wait: Callable[[float], None]
) -> str:
    node, percent = str(declared["node"]), float(declared["drain_percent"])
    everyone = records(ask(_ALL))
    allowed = allowed_drains(len(everyone), percent)
    if drained_before(everyone, node) >= allowed:
        return "withheld"
    reason = drain_reason([each.problem for each in findings])
    ask(["update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"])
    _write(note, findings)
    wait(_SECOND_S)
    everyone = records(ask(_ALL))
    own = next((each for each in everyone if each.name == node), None)
    if own is not None and own.is_ours and drained_before(everyone, node) >= allowed:
        ask(["update", f"NodeName={node}", "State=RESUME"])
        keep_note(note, None)
        return "withheld"
    return "drain"


def _write(note: Path, findings: Sequence[Finding]) -> None:
    """Write the note; severity ISOLATE is kept even if later findings are less severe."""
    if findings:
        severity = ISOLATE if ISOLATE in _noted(note) else findings[0].severity
        keep_note(note, f"{severity}\n{drain_reason([each.problem for each in findings])}")


def _noted(note: Path) -> str:
    """Return the severity in the note, or '' without a note."""
    try:
        return note.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return ""


def keep_note(note: Path, text: str | None) -> None:
    """Write or remove the note.

    Raises:
        OSError: the file cannot be written.
    """
    if text is None:
        note.unlink(missing_ok=True)
    else:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{text}\n", encoding="utf-8")
