# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What became of runs of nccl-tests that cannot be judged by their speed, in words."""

from __future__ import annotations

from typing import Any

from ..nccl.warned import cause

__all__ = ["did_not_run", "no_bandwidth", "wrong_words"]


def did_not_run(runs: list[dict[str, Any]]) -> str | None:
    """Return why there is nothing to judge, or None."""
    said = {
        "crashed": "the run crashed",
        "hung": "the run hung: it printed its header and no row",
        "truncated": "the output is incomplete",
        "error-only": "the run did not start",
        "template": "the text holds placeholders instead of numbers",
        "no-data": "there is no output of nccl-tests",
    }
    for number, run in enumerate(runs, start=1):
        which = f" (run {number} of {len(runs)})" if len(runs) > 1 else ""
        if run["outcome"] in {"ok", "truncated", "contradictory"} and run.get("contradictions"):
            return f"the output contradicts itself{which}: {run['contradictions'][0]}"
        if run["outcome"] in said:
            why = filter(None, [cause(run.get("warnings") or []), *run["errors"][:1]])
            return ": ".join([f"{said[run['outcome']]}{which}", *filter(None, ["; ".join(why)])])
    return None if runs else "there is no output of nccl-tests"


def no_bandwidth(runs: list[dict[str, Any]]) -> str | None:
    """Return why the figures are not the bandwidth of all ranks, or None."""
    if any(run.get("cpu_time") for run in runs):
        return "the header says cputime (-C 1): the time is that to issue the call, so busbw is no bandwidth"
    groups = max((run.get("groups") or 1 for run in runs), default=1)
    if groups > 1:
        return f"the ranks ran in {groups} groups (NCCL_TESTS_SPLIT): the figures are those of one group"
    return None


def wrong_words(run: dict[str, Any]) -> str:
    """Return what is wrong with the sums of a run whose results are wrong."""
    cells = [
        (half["wrong"], row["size"])
        for row in run["rows"]
        for half in (row["out_of_place"], row["in_place"])
        if half is not None and (half["wrong"] or 0) > 0
    ]
    if cells and all(float(count).is_integer() for count, _ in cells):
        return f"the sums are wrong: {cells[0][0]} wrong element(s) at {cells[0][1]} B, {len(cells)} bad measurement(s)"
    return f"the sums are wrong: {run['out_of_bounds']} measurement(s) out of bounds"
