# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what the job of the stage training printed: for each scale the lines of its run, and how it ended."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["read_training"]

_MARK = "busbar-training "
_SCALE = re.compile(r"^# busbar scale: (\d{1,6}) (\d{1,4})$")
_EXIT = re.compile(r"^# busbar exit: (\d{1,6}) (\d{1,4}) (\d{1,3})$")
_SAID = "train_ddp: "
_LONGEST = 300
_MOST_LOSSES = 200
_PAIR = 2
_NUMBERS = (
    "samples_per_second",
    "step_seconds",
    "data_seconds",
    "compute_seconds",
    "all_reduce_seconds",
    "tflops_per_rank",
    "tokens_per_sample",
    "cpus_per_rank",
    "workers_per_rank",
    "first_loss",
    "final_loss",
    "gradient_bytes",
    "batch_per_rank",
    "steps",
)


def read_training(text: str) -> list[dict[str, Any]]:
    """Return what is known of each scale, in the order of the job; it never raises.

    The job prints ``# busbar scale: NODES RANKS_PER_NODE`` before each run and ``# busbar exit: NODES RANKS_PER_NODE
    CODE`` after it; the program prints one line ``busbar-training {json}``.

    Args:
        text: the output of the job.

    Returns:
        For each scale nodes and ranks_per_node (as asked), code (of its end; None when it did not end), said (the
        program's own words, why it gave up) and result: None, or backend, torch, device, model, precision (texts),
        world_size and nodes (whole numbers), samples_per_second, step_seconds, data_seconds, compute_seconds,
        all_reduce_seconds, tflops_per_rank, tokens_per_sample, cpus_per_rank, workers_per_rank, first_loss, final_loss,
        gradient_bytes, batch_per_rank and steps (numbers, None where not measured), losses (pairs of a step and its
        loss), and hosts (node, ranks, compute_seconds).
    """
    scales: list[dict[str, Any]] = []
    for line in text.splitlines():
        start, end = _SCALE.match(line), _EXIT.match(line)
        if start:
            about = {"nodes": int(start[1]), "ranks_per_node": int(start[2])}
            scales.append({**about, "code": None, "said": "", "result": None})
        elif scales and end:
            scales[-1]["code"] = int(end[3])
        elif scales and line.startswith(_MARK):
            scales[-1]["result"] = _result(line[len(_MARK) :])
        elif scales and line.startswith(_SAID) and not scales[-1]["said"]:
            scales[-1]["said"] = _words(line[len(_SAID) :])
    return scales


def _words(value: object) -> str:
    return "".join(char if char.isprintable() else " " for char in str(value))[:_LONGEST]


def _number(value: object) -> float | None:
    """Return a finite number of 0 or more, or None; a loss that is no number is one of these."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e308  # noqa: PLR2004
    return float(value) if known and isinstance(value, (int, float)) else None


def _losses(value: object) -> list[list[float]]:
    pairs = [pair for pair in value if isinstance(pair, list)] if isinstance(value, list) else []
    known = [[_number(part) for part in pair] for pair in pairs[:_MOST_LOSSES]]
    return [[step, loss] for step, loss in (pair for pair in known if len(pair) == _PAIR) if step and loss is not None]


def _result(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    hosts = found.get("hosts")
    return {
        **{key: _words(found.get(key) or "") for key in ("backend", "torch", "device", "model", "precision")},
        **{key: int(_number(found.get(key)) or 0) for key in ("world_size", "nodes")},
        **{key: _number(found.get(key)) for key in _NUMBERS},
        "losses": _losses(found.get("losses")),
        "hosts": [
            {
                "node": _words(host.get("node") or ""),
                "ranks": int(_number(host.get("ranks")) or 0),
                "compute_seconds": _number(host.get("compute_seconds")),
            }
            for host in (hosts if isinstance(hosts, list) else [])
            if isinstance(host, dict)
        ],
    }
