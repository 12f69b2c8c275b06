# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What became of runs of nccl-tests that cannot be judged by their speed, in words."""

from __future__ import annotations

from typing import Any

__all__ = ["did_not_run", "wrong_words"]


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
            why = f": {run['errors'][0]}" if run["errors"] else ""
            return f"{said[run['outcome']]}{which}{why}"
    return None if runs else "there is no output of nccl-tests"


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
