# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Derive the verdict of a stage: FAIL for a fault, INCONCLUSIVE for missing or doubtful results, otherwise PASS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..nccl_judge import FAIL, INCONCLUSIVE, PASS

_MOST = 8


class Fault(NamedTuple):
    """A proven fault.

    Attributes:
        node: the faulty node; empty if it is unknown.
        words: description of the fault.
        line: line for the report; by default the node and the description.
    """

    node: str
    words: str
    line: str = ""

    def __str__(self) -> str:
        """Return the fault as a line of the report."""
        return self.line or (f"{self.node}: {self.words}" if self.node else self.words)


@dataclass
class Judged:
    """The results of a program.

    Attributes:
        result: the result in one line.
        figures: values for the report under the stage's name; None if the stage has none.
        faults: faults, the most informative first.
        gaps: messages about missing results, which lead to INCONCLUSIVE.
        doubt: the reason for INCONCLUSIVE if `faults` and `gaps` are empty; otherwise empty.
        notes: further findings.
        source: source of the floors.
        program: name of the program.
        version: version of the program.
        most: maximum number of findings.
    """

    result: str
    figures: dict[str, Any] | None = None
    faults: list[Fault] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    doubt: str = ""
    notes: list[str] = field(default_factory=list)
    source: str = ""
    program: str = ""
    version: str | None = None
    most: int = _MOST

    def answer(self, name: str) -> dict[str, Any]:
        """Return the stage's keys of the report entry: the common ones, and the stage's values under its name."""
        lines = [str(fault) for fault in self.faults]
        if lines:
            verdict, reason = FAIL, lines[0]
        elif self.gaps or self.doubt:
            verdict, reason = INCONCLUSIVE, self.gaps[0] if self.gaps else f"{self.result}; {self.doubt}"
        else:
            verdict, reason = PASS, self.result
        rest = [line for line in dict.fromkeys([*lines, *self.gaps, *self.notes]) if line not in reason]
        more = [f"{len(rest) - self.most} more findings in the output"] if len(rest) > self.most else []
        blamed: dict[str, str] = {}
        for fault in self.faults:
            if fault.node:
                blamed.setdefault(fault.node, fault.words)
        return {
            "verdict": verdict,
            "reason": reason,
            "findings": rest[: self.most] + more,
            "source": self.source or None,
            "blamed": [{"node": node, "reason": words} for node, words in blamed.items()],
            **({"program": self.program} if self.program else {}),
            **({"version": self.version} if self.version else {}),
            **({} if self.figures is None else {name: self.figures}),
        }


@dataclass
class Floors:
    """Chooses between floors from options and hardware profiles, and records their sources."""

    sources: list[str] = field(default_factory=list)

    def pick(self, given: float, known: float | None, *sources: object) -> float | None:
        """Return a floor, or None if neither is known.

        Args:
            given: floor from the options; 0 if not set.
            known: floor from the hardware profile.
            sources: sources of `known`.
        """
        found = given or known or None
        if found:
            self.sources += ["the operator"] if given else [str(source or "") for source in sources]
        return found

    def __str__(self) -> str:
        """Return the sources of the floors in use."""
        return "; ".join(filter(None, dict.fromkeys(self.sources)))
