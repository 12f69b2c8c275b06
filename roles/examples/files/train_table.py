#!/usr/bin/env python3
# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of scaling.sbatch: the training time on one GPU, one node and more nodes for each batch size.

Usage: train_table.py FOLDER, where FOLDER contains run-*.json, the --result files of train_ddp.py. Needs no torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["read_runs", "table"]

_COLUMNS = ("Setup", "Nodes", "GPUs", "Training time, s", "Samples/s", "Speed-up", "Efficiency, %", "Communication, %")
_WRONG_INPUT = 2


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """Return the results in a folder, sorted by batch size, then by number of ranks.

    Raises:
        ValueError: the folder has no results, or one cannot be read.
    """
    found = []
    for path in sorted(folder.glob("run-*.json")):
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
            run["batch_per_rank"] * run["world_size"] * run["train_seconds"] * run["samples_per_second"]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            message = f"{path} is not a result of train_ddp.py ({exc})"
            raise ValueError(message) from exc
        found.append(run)
    if not found:
        message = f"{folder} contains no results (run-*.json), because no training finished"
        raise ValueError(message)
    return sorted(found, key=lambda run: (run["batch_per_rank"], run["world_size"]))


def table(runs: list[dict[str, Any]]) -> str:
    """Return a table for each batch size; speed-up and efficiency are relative to one GPU, and unknown without it."""
    parts = []
    for batch in dict.fromkeys(run["batch_per_rank"] for run in runs):
        own = [run for run in runs if run["batch_per_rank"] == batch]
        alone = next((run["samples_per_second"] for run in own if run["world_size"] == 1), None)
        rows = [_COLUMNS, *(_row(run, alone) for run in own)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
        title = f"Batch size {batch} per GPU: {own[0]['model']} in {own[0]['precision']}, {own[0]['device']}"
        lines = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
        parts.append("\n".join([title, *lines]))
    return "\n\n".join(parts)


def _row(run: dict[str, Any], alone: float | None) -> tuple[str, ...]:
    ranks, rate = run["world_size"], run["samples_per_second"]
    setup = "Multi-node" if run["nodes"] > 1 else ("Multi-GPU" if ranks > 1 else "Single GPU")
    shared = run.get("all_reduce_seconds")
    return (
        setup,
        str(run["nodes"]),
        str(ranks),
        f"{run['train_seconds']:.2f}",
        f"{rate:.4g}",
        f"{rate / alone:.2f}" if alone else "",
        f"{100 * rate / alone / ranks:.1f}" if alone else "",
        f"{100 * shared / run['step_seconds']:.1f}" if shared is not None and ranks > 1 else "",
    )


def _cells(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]


def main() -> int:
    """Print the table."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and its one argument
        sys.stderr.write("usage: train_table.py FOLDER\n")
        return _WRONG_INPUT
    try:
        sys.stdout.write(table(read_runs(Path(sys.argv[1]))) + "\n")
    except ValueError as exc:
        sys.stderr.write(f"train_table: {exc}\n")
        return _WRONG_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
