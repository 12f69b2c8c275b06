# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Create and read the signed statement about a validation: its tests, limits and hardware parts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .tested_systems import numbered_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .report_types import ReadReport, ReadTest

FORM = 1
_LIMITS = ("floor", "limit", "ceiling", "tolerance", "reference")


def statement(report: ReadReport, files: Mapping[str, str], *, signed: str, version: str) -> dict[str, Any]:
    """Return the statement about a report.

    Args:
        report: a normalised report.
        files: SHA-256 of each file of the report by name, hexadecimal.
        signed: time of the signature, ISO 8601.
        version: version of busbar.
    """
    parts = numbered_parts(report)
    nodes = list(dict.fromkeys([*report["nodes"], *parts]))
    return {
        "busbar_statement": FORM,
        "busbar": version,
        "signed": signed,
        "cluster": report["cluster"],
        "validated": report["started"],
        "verdict": report["verdict"],
        "reason": report["reason"],
        "nodes": nodes,
        "left_out": report["left_out"],
        "settings": report["settings"],
        "tests": [_test(test) for test in report["tests"]],
        "parts": parts,
        "parts_unknown": [node for node in nodes if node not in parts],
        "files": dict(sorted(files.items())),
    }


def _test(test: ReadTest) -> dict[str, Any]:
    return {
        "name": test["name"],
        "stage": test["stage"],
        "verdict": test["verdict"],
        "reason": test["reason"],
        "nodes": test["nodes"],
        "partners": test["partners"],
        "hardware": test["hardware"],
        "measured_busbw": test["measured_busbw"],
        "limits": _limits(test),
        "source": test["source"],
    }


def _limits(test: ReadTest) -> dict[str, Any]:
    """Return the limits of a test: floor and ceiling in GB/s, and the limits specific to its stage."""
    own = test["own"] if isinstance(test["own"], dict) else {}
    found: dict[str, Any] = {"floor": test["floor"], "ceiling": test["ceiling"]}
    found |= {key: value for key, value in own.items() if any(word in key for word in _LIMITS)}
    return {key: value for key, value in found.items() if value not in (None, "", {}, [])}


def statement_text(found: Mapping[str, Any]) -> str:
    """Return the content of the statement file to sign."""
    return f"{json.dumps(found, indent=1, ensure_ascii=True, allow_nan=False)}\n"


def read_statement(raw: bytes) -> dict[str, Any]:
    """Return the statement in a file.

    Raises:
        ValueError: it is not a statement, or a newer version of busbar wrote it.
    """
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        message = f"is not JSON: {exc}"
        raise ValueError(message) from exc
    if not isinstance(found, dict) or found.get("busbar_statement") != FORM:
        message = f"is not a statement about a validation (expected form {FORM})"
        raise ValueError(message)
    files = found.get("files")
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        message = "contains no files"
        raise ValueError(message)
    return found
