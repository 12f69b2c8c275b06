# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Makes the report's entry of a check, which is no collective, from what was judged and what became of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ....module_utils.hardware.machine_parts import parts_of
from .environment import environment_of
from .judge import FAIL, INCONCLUSIVE, PASS
from .step_words import step_fault
from .tests import job_end

if TYPE_CHECKING:
    from .model import Entry, Planned, Test

__all__ = ["check_entry"]

_TAIL = 20


def check_entry(  # noqa: PLR0913 - the parts of an entry
    planned: Planned,
    entry: Entry,
    text: str | None,
    answer: dict[str, Any],
    *,
    hardware: str,
    ranks: int = 0,
    proves: bool = False,
) -> Test:
    """Return the report's entry of a check: the keys of those of validation.judged, and those of its answer.

    Args:
        planned: the test: name, stage and kind.
        entry: what the module slurm_tests returned for it.
        text: the output of the job, None where there is none.
        answer: verdict, reason, findings and whatever else the check's judge says.
        hardware: name of the profile, or of several.
        ranks: how many took part; 0 where that says nothing.
        proves: whether a FAIL is proof whatever became of the job; a speed on a node that is going down is none.
    """
    if not (proves and answer["verdict"] == FAIL):
        answer = answer | _job_first(answer, entry, text)
    found = {
        "name": planned["name"],
        "stage": planned["stage"],
        "kind": planned["kind"],
        "collective": "",
        "rail": "",
        "nodes": entry["nodes"],
        "partners": entry["partners"],
        "left_out": entry["left_out"],
        "hardware": hardware,
        "ranks": ranks,
        **dict.fromkeys(("measured_busbw", "at_size", "floor", "ceiling", "source")),
        **answer,
        "environment": environment_of(text),
        "parts": parts_of(text),
        # Who differs is compared among the nodes of collectives alone.
        "differences": {},
        "job": job_end(entry),
        "output": f"{planned['name']}.out" if text else None,
        "tail": [] if answer["verdict"] == PASS else (text or "").rstrip().splitlines()[-_TAIL:],
        "runs": [],
    }
    # What a judge says besides is its own, and no key of a Test.
    return cast("Test", found)


def _job_first(answer: dict[str, Any], entry: Entry, text: str | None) -> dict[str, Any]:
    """Return verdict and reason where the job says more than its output; a program may end badly over a fault."""
    reason = ""
    if entry["problem"]:
        reason = entry["problem"]
    elif text is None:
        reason = f"the output could not be fetched from {entry['batch_host'] or 'no batch host'}"
    elif fault := step_fault(text, ran=answer["verdict"] != INCONCLUSIVE):
        reason = fault
    elif entry["state"] != "COMPLETED" and answer["verdict"] == PASS:
        reason = f"the job ended as {entry['state'] or 'unknown'} with exit code {entry['exit_code'] or '?'}"
    return {"verdict": INCONCLUSIVE, "reason": reason} if reason else {}
