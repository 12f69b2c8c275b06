# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Plans the check of the shared tree as one job of all nodes, and makes the report's entry of it."""

from __future__ import annotations

import re
from typing import Any

from ..check_entry import check_entry
from ..options import bytes_of
from ..tests import candidates
from .check import judge_storage
from .found import WAYS, Limits
from .output import read_storage

__all__ = ["STORAGE", "blamed_for_storage", "judged_storage", "planned_storage", "storage_problems"]

STORAGE = "storage"
_PAIR = 2
_LEAST_BYTES = 1 << 20
_PATH = re.compile(r"/[^\x00-\x1f]*")


def storage_problems(options: dict[str, Any]) -> list[str]:
    """Return what is wrong with the options of the stage, each with its remedy; an empty list when nothing is.

    Args:
        options: stages, and storage: path (text), size (as bytes_of takes it), seconds, read_floor and
            write_floor (bytes/s, 0 for the profile's).
    """
    if STORAGE not in options["stages"]:
        return []
    own = options["storage"]
    problems = []
    if not _PATH.fullmatch(str(own["path"])):
        problems.append("validation_storage_path: the stage storage needs the path of a tree that all nodes share")
    try:
        if bytes_of(own["size"]) < _LEAST_BYTES:
            problems.append(f"validation_storage_size: {own['size']} is less than 1M")
    except ValueError as exc:
        problems.append(f"validation_storage_size: {exc}")
    if int(own["seconds"]) < 1:
        problems.append("validation_storage_seconds: must be 1 or more")
    problems += [
        f"validation_storage_{way}_floor: {own[f'{way}_floor']} is not 0 or more bytes per second"
        for way in WAYS
        if float(own[f"{way}_floor"]) < 0
    ]
    return problems


def planned_storage(options: dict[str, Any], nodes: list[str]) -> dict[str, Any]:
    """Return the test of all nodes at once, as validation.planned_test gives a test.

    Args:
        options: as for storage_problems, and storage.script, partners, pool, hardware, output and sbatch_arguments.
        nodes: the nodes to be tested; one alone is given a partner where partners are asked for.
    """
    partners = int(options["partners"]) if len(nodes) < _PAIR else 0
    job = {
        "name": STORAGE,
        "nodes": nodes,
        "candidates": candidates(options, nodes) if partners else [],
        "partners": partners,
        "minimum": 1,
        "script": options["storage"]["script"],
        "arguments": ["--ntasks-per-node=1", *(str(item) for item in options["sbatch_arguments"])],
        "output": options["output"],
    }
    return {"name": STORAGE, "stage": STORAGE, "kind": STORAGE, "ranks_per_node": 1, "job": job}


def _limits(options: dict[str, Any], nodes: list[str]) -> Limits:
    """Return what the nodes are judged by: the operator's floors, else those of each node's hardware."""
    own = options["storage"]
    floors: dict[str, dict[str, float | None]] = {}
    sources: dict[str, None] = {}
    for node in nodes:
        profile = options["catalogue"].get(str(options["hardware"].get(node) or "")) or {}
        declared = profile.get("storage") or {}
        floors[node] = {}
        for way in WAYS:
            asked = float(own[f"{way}_floor"] or 0)
            known = declared.get(f"{way}_floor_bytes_per_second")
            floors[node][way] = asked or (float(known) if known else None)
            if floors[node][way]:
                sources["the operator" if asked else str(declared.get("source") or "")] = None
    return Limits(str(own["path"]), floors, "; ".join(filter(None, sources)), bool(own["speed"]))


def judged_storage(
    options: dict[str, Any], planned: dict[str, Any], entry: dict[str, Any], text: str | None
) -> dict[str, Any]:
    """Return the report's entry of the check: the keys of those of validation.judged, and blamed and storage.

    Args:
        options: as for planned_storage, and catalogue.
        planned: what planned_storage returned.
        entry: what the module slurm_tests returned for it.
        text: the output of the job, None where there is none.
    """
    nodes = entry["nodes"] + entry["partners"]
    answer = judge_storage(read_storage(text or ""), nodes, _limits(options, nodes))
    hardware = sorted({str(options["hardware"].get(node) or "") for node in nodes})
    return check_entry(
        planned, entry, text, answer, hardware=", ".join(filter(None, hardware)), ranks=len(nodes), proves=True
    )


def blamed_for_storage(tests: list[dict[str, Any]]) -> dict[str, str]:
    """Return the nodes that a check of the shared tree blames, each with the reason."""
    found = [item for test in tests if test["stage"] == STORAGE for item in test["blamed"]]
    return {item["node"]: f"{STORAGE}: {item['node']}: {item['reason']}" for item in found}
