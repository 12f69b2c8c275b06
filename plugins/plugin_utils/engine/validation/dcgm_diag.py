# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse and judge the JSON of ``dcgmi diag -j`` of DCGM 2 and 3 (results by GPU ID) and DCGM 4 (by entity)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from .nccl_judge import FAIL, INCONCLUSIVE, PASS

_KEYS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_STATUS = {"pass": "pass", "fail": "fail", "warn": "warn", "warning": "warn", "skip": "skip", "skipped": "skip"}
_STATUS |= {"not run": "skip", "notrun": "skip"}
_MOST_TRIES = 100
_MOST_TEXT = 1 << 24
_MOST_TESTS = 200
_MOST_RESULTS = 2000
_MOST_FINDINGS = 12
_LONGEST = 300


def read_diag(text: str) -> dict[str, Any]:
    """Return the parsed results of a diagnosis. It never raises.

    Returns:
        version and driver (None if unknown), results and errors (problems with the output). A result has category,
        test, unit (such as GPU or CPU; empty for the whole node), ids, status (pass, fail, warn, skip, or the original
        text if unknown), and messages.
    """
    found: dict[str, Any] = {"version": None, "driver": None, "results": [], "errors": []}
    data = _decoded(text[:_MOST_TEXT])
    if data is None:
        last_line = next((line.strip() for line in reversed(text[:_MOST_TEXT].splitlines()) if line.strip()), "")
        found["errors"].append(
            f"the output contains no JSON from dcgmi diag{': ' + last_line[:_LONGEST] if last_line else ''}"
        )
        return found
    about = _dict(data.get("metadata"))
    found["version"] = _text(about.get("version") or about.get("DCGM Version") or data.get("version"))
    found["driver"] = _text(about.get("Driver Version Detected") or data.get("Driver Version Detected"))
    if data.get("runtime_error"):
        found["errors"].append(f"dcgmi diag did not run: {_text(data['runtime_error'])}")
    for category in _list(data.get("test_categories")):
        for test in _list(_dict(category).get("tests"))[:_MOST_TESTS]:
            _take(_dict(category), _dict(test), found)
    found["results"] = found["results"][:_MOST_RESULTS]
    if not found["results"] and not found["errors"]:
        found["errors"].append("the JSON of dcgmi diag contains no test")
    return found


def _decoded(text: str) -> dict[str, Any] | None:
    """Return the value of DCGM's key in the first JSON object that has this key."""
    place, decoder = text.find("{"), json.JSONDecoder()
    for _try in range(_MOST_TRIES):
        if place < 0:
            return None
        try:
            data, _end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            data = None
        own = next((data[key] for key in _KEYS if key in data), None) if isinstance(data, dict) else None
        if isinstance(own, dict):
            return own
        place = text.find("{", place + 1)
    return None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return None if value is None else " ".join(str(value).split())[:_LONGEST]


def _take(category: dict[str, Any], test: dict[str, Any], found: dict[str, Any]) -> None:
    """Add the results of one test; its summary is added only if no other result has the same status."""
    where = {"category": _text(category.get("category")) or "", "test": _text(test.get("name")) or "a test"}
    results = [_dict(result) for result in _list(test.get("results"))]
    fresh = [{**where, **_who(result), **_status_entry(result)} for result in results]
    summary = _dict(test.get("test_summary"))
    if summary.get("status"):
        whole = {**where, "unit": "", "ids": [], **_status_entry(summary)}
        if whole["status"] not in {result["status"] for result in fresh}:
            fresh.append(whole)
    if not fresh:
        found["errors"].append(f"the test {where['test']} has no result")
    found["results"] += fresh


def _who(result: dict[str, Any]) -> dict[str, Any]:
    """Return the unit and the IDs of a result."""
    raw = next((result[key] for key in ("entity_id", "gpu_ids", "gpu_id") if result.get(key) is not None), None)
    ids = [int(part) for part in str("" if raw is None else raw).split(",") if part.strip().isdecimal()]
    unit = str(result.get("entity_group") or "GPU") if ids else ""
    return {"unit": unit[:40], "ids": [number for number in ids if number < 1 << 16]}


def _status_entry(result: dict[str, Any]) -> dict[str, Any]:
    status = _text(result.get("status")) or "no status"
    messages: list[str] = []
    for item in [*_list(result.get("warnings")), *([result["warnings"]] if _is_text(result.get("warnings")) else [])]:
        own = _dict(item)
        words = _text((own.get("warning") or own.get("warnings") or own.get("message")) if own else item)
        messages += [words] if words else []
    return {"status": _STATUS.get(status.lower(), status), "messages": messages}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def judge_diag(data: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict, reason and findings of a diagnosis, and its values for the report.

    The status Fail leads to FAIL; Warn and Skip are findings. An unknown status, or a diagnosis that ran no test, leads
    to INCONCLUSIVE.

    Args:
        data: the result of read_diag.
        about: node (name) and profile (None if unknown).

    Returns:
        verdict, reason, findings, version, driver, results, and pairs (one entry per failed GPU).
    """
    by_status: dict[str, list[dict[str, Any]]] = {}
    for result in data["results"]:
        by_status.setdefault(result["status"], []).append(result)
    failed = by_status.get("fail", [])
    verdict, reason = _verdict(data, about, by_status)
    gpus = sorted({number for result in failed if result["unit"] == "GPU" for number in result["ids"]})
    return {
        "verdict": verdict,
        "reason": reason,
        "findings": [words for words in _findings(data, by_status) if words not in reason],
        "source": "limits of dcgmi diag",
        "program": "dcgmi diag",
        "version": data["version"],
        "driver": data["driver"],
        "pairs": [[gpu] for gpu in gpus] if verdict == FAIL else [],
        "results": data["results"],
    }


def _verdict(
    data: dict[str, Any], about: dict[str, Any], by_status: dict[str, list[dict[str, Any]]]
) -> tuple[str, str]:
    node, failed = about["node"], by_status.get("fail", [])
    strange = sorted(by_status.keys() - {"pass", "fail", "warn", "skip"})
    wanted = int(((about["profile"] or {}).get("gpu") or {}).get("count") or 0)
    seen = {number for result in data["results"] if result["unit"] == "GPU" for number in result["ids"]}
    if failed:
        more = sorted({f"{_where(result)}" for result in failed[1:]} - {_where(failed[0])})
        also = f"; also {', '.join(more[:4])}{f' and {len(more) - 4} more' if len(more) > 4 else ''}" if more else ""  # noqa: PLR2004
        return FAIL, f"{node}: {_words(failed[0], 'failed')}{also}"
    if data["errors"]:
        return INCONCLUSIVE, f"{node}: {data['errors'][0]}"
    if strange:
        return INCONCLUSIVE, f"{node}: {_where(by_status[strange[0]][0])} has the unknown status {strange[0]!r}"
    if not by_status.get("pass") and not by_status.get("warn"):
        return INCONCLUSIVE, f"{node}: every test was skipped"
    if wanted and seen and len(seen) < wanted:
        return INCONCLUSIVE, f"{node}: {len(seen)} GPU(s) were diagnosed (expected {wanted})"
    count = Counter(result["status"] for result in data["results"])
    others = [
        f"{count[word]} {words}" for word, words in (("warn", "with a warning"), ("skip", "skipped")) if count[word]
    ]
    return PASS, ", ".join([f"{count['pass']} results passed", *others])


def _where(result: dict[str, Any]) -> str:
    who = f" of {result['unit']} {', '.join(map(str, result['ids']))}" if result["ids"] else ""
    return f"{result['test']}{who}"


def _words(result: dict[str, Any], what: str) -> str:
    return f"{_where(result)} {what}{': ' + result['messages'][0] if result['messages'] else ''}"


def _findings(data: dict[str, Any], by_status: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the other failures, the warnings and the skipped tests; GPUs with the same message share a line."""
    found = [_words(result, "failed") for result in by_status.get("fail", [])[1:]]
    found += [_words(result, "warns") for result in by_status.get("warn", [])]
    skipped: dict[str, dict[str, Any]] = {}
    for result in by_status.get("skip", []):
        known = skipped.setdefault(result["test"], {**result, "ids": []})
        known["ids"] = known["ids"] + [number for number in result["ids"] if number not in known["ids"]]
    found += [_words(result, "was skipped") for result in skipped.values()]
    found += [message for result in by_status.get("pass", []) for message in result["messages"]]
    found += data["errors"]
    return found[:_MOST_FINDINGS] + ([f"and {len(found) - _MOST_FINDINGS} more"] if len(found) > _MOST_FINDINGS else [])
