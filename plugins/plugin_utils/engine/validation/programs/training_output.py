# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of the training stage's job: the lines and the exit code of the run at each scale."""

from __future__ import annotations

import re
from typing import Any

from ...common.printable import json_object, plain_text
from ..presentation import finite, points

_MARK = "busbar-training "
_SCALE = re.compile(r"^# busbar scale: (\d{1,6}) (\d{1,4})$")
_EXIT = re.compile(r"^# busbar exit: (\d{1,6}) (\d{1,4}) (\d{1,3})$")
_MESSAGE = "train_ddp: "
_MOST_LOSSES = 200
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
    """Return the result of each scale, in the order of the job; it never raises.

    The job prints ``# busbar scale: NODES RANKS_PER_NODE`` before each run and ``# busbar exit: NODES RANKS_PER_NODE
    CODE`` after it; the program prints one line ``busbar-training {json}``.

    Args:
        text: the output of the job.

    Returns:
        For each scale nodes and ranks_per_node (as requested), code (exit code; None if it did not end), message (of
        the program if it failed) and result: None, or backend, torch, device, model, precision (strings),
        world_size and nodes (integers), samples_per_second, step_seconds, data_seconds, compute_seconds,
        all_reduce_seconds, tflops_per_rank, tokens_per_sample, cpus_per_rank, workers_per_rank, first_loss, final_loss,
        gradient_bytes, batch_per_rank and steps (numbers, None if not measured), losses (pairs of a step and its loss),
        and hosts (node, ranks, compute_seconds).
    """
    scales: list[dict[str, Any]] = []
    for line in text.splitlines():
        start, end = _SCALE.match(line), _EXIT.match(line)
        if start:
            about = {"nodes": int(start[1]), "ranks_per_node": int(start[2])}
            scales.append({**about, "code": None, "message": "", "result": None})
        elif scales and end:
            scales[-1]["code"] = int(end[3])
        elif scales and _MARK in line:
            # Output of the program may be appended to an unfinished line of NCCL's log.
            found = json_object(line.partition(_MARK)[2])
            scales[-1]["result"] = _result(found) if found else None
        elif scales and line.startswith(_MESSAGE) and not scales[-1]["message"]:
            scales[-1]["message"] = plain_text(line[len(_MESSAGE) :])
    return scales


def _result(found: dict[str, Any]) -> dict[str, Any]:
    hosts = found.get("hosts")
    return {
        **{key: plain_text(found.get(key) or "") for key in ("backend", "torch", "device", "model", "precision")},
        **{key: int(finite(found.get(key)) or 0) for key in ("world_size", "nodes")},
        **{key: finite(found.get(key)) for key in _NUMBERS},
        "losses": [row for row in points(found.get("losses"), 2, _MOST_LOSSES) if row[0] and row[1] is not None],
        "hosts": [
            {
                "node": plain_text(host.get("node") or ""),
                "ranks": int(finite(host.get("ranks")) or 0),
                "compute_seconds": finite(host.get("compute_seconds")),
            }
            for host in (hosts if isinstance(hosts, list) else [])
            if isinstance(host, dict)
        ],
    }
