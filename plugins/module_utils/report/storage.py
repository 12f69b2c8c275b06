# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a report says of the shared tree, and shows it: a row, bars and metrics for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["STORAGE", "storage_families", "storage_of", "storage_rows"]

STORAGE = "storage"
_NONE = "\u2013"
_MB = 1e6
_VERDICTS = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
_RATES = ("write", "write_floor", "read", "read_floor")


def storage_of(value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
    """Return the shared tree of a test, None for a test that is about none; texts as `plain` makes them.

    Returns:
        path, mode and nodes, each with node, verdict, filesystem and reason, and write, write_floor, read and
        read_floor (bytes/s, or None).
    """
    if not isinstance(value, dict):
        return None
    nodes = value.get("nodes")
    rows = [item for item in nodes if isinstance(item, dict)] if isinstance(nodes, list) else []
    return {
        "path": plain(value.get("path") or ""),
        "mode": plain(value.get("mode") or ""),
        "nodes": [
            {
                **{key: plain(row.get(key) or "") for key in ("node", "filesystem", "reason")},
                "verdict": row["verdict"] if row.get("verdict") in _VERDICTS else "INCONCLUSIVE",
                **{key: _rate(row.get(key)) for key in _RATES},
            }
            for row in rows
        ],
    }


def _rate(value: object) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e308  # noqa: PLR2004
    return float(value) if known and isinstance(value, (int, float)) else None


def storage_rows(storage: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the rows of the page's table, the worst nodes first; rates in MB/s, each with text and value."""
    nodes = storage["nodes"] if storage else []
    return [
        {**row, "rates": [{"text": _mbs(row[key]), "value": "" if row[key] is None else row[key]} for key in _RATES]}
        for row in sorted(nodes, key=lambda row: _VERDICTS[row["verdict"]])
    ]


def _mbs(rate: float | None) -> str:
    return _NONE if rate is None else f"{rate / _MB:.4g}"


def storage_families(
    found: list[dict[str, Any]], cluster: str, codes: dict[str, int]
) -> list[tuple[str, str, list[tuple[dict[str, object], float | None]]]]:
    """Return name, help and samples (labels and value) of the metrics about shared trees.

    Args:
        found: the nodes of trees as `storage_of` gives them, each with the ``path`` of its tree.
        cluster: its name.
        codes: verdict to number.
    """
    rows = [({"cluster": cluster, "path": row["path"], "node": row["node"]}, row) for row in found]
    families: list[tuple[str, str, list[tuple[dict[str, object], float | None]]]] = [
        (
            "busbar_storage_verdict",
            "Whether a node shares the tree as it should: 0 PASS, 1 FAIL, 3 INCONCLUSIVE.",
            [(dict(labels), codes[row["verdict"]]) for labels, row in rows],
        )
    ]
    for way, words in (("write", "wrote to"), ("read", "read from")):
        families += [
            (
                f"busbar_storage_{way}_bytes_per_second",
                f"What a node {words} the shared tree while all others did.",
                [(dict(labels), row[way]) for labels, row in rows],
            ),
            (
                f"busbar_storage_{way}_floor_bytes_per_second",
                f"What a node must {way} at least.",
                [(dict(labels), row[f"{way}_floor"]) for labels, row in rows],
            ),
        ]
    return families
