# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""One run of nccl-tests, before anything of it is read."""

from __future__ import annotations

from typing import Any

__all__ = ["Run", "new_run"]

Run = dict[str, Any]


def new_run() -> Run:
    """Return an empty run: every key of the contract, and under "seen" what the verdict on its form needs."""
    return {
        "program": None,
        "nccl_tests_version": None,
        "nccl_version": None,
        "ranks": None,
        "nodes": None,
        "hosts": [],
        "devices": [],
        "columns": [],
        "rows": [],
        "avg_busbw": None,
        "out_of_bounds": None,
        "checked": False,
        "errors": [],
        "warnings": [],
        "cpu_time": False,
        "groups": 1,
        "contradictions": [],
        "fabric": {},
        "outcome": "no-data",
        "seen": {
            "start": None,
            "rank_lines": {},
            "groups": [],
            "repeated_ranks": 0,
            "named": False,
            "devices": False,
            "elided": False,
            "placeholders": False,
            "reduced": None,
            "failures": [],
            "failed_words": False,
            "broken_rows": 0,
            "check": "",
            "begun": False,
            "text": False,
            "printed": [],
            "strange_footer": [],
        },
    }
