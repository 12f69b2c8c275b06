# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The empty result of a run of nccl-tests."""

from __future__ import annotations

from typing import Any

__all__ = ["Run", "new_run"]

Run = dict[str, Any]


def new_run() -> Run:
    """Return an empty run: every key of the output format, and under "seen" the notes for checking its form."""
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
