# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the JSON file that nccl-tests writes with -J (2.17.3 and newer), even if it is truncated."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .run_data import Printed

_BARE = re.compile(r"(?<=[:,\[])(\s*)(-?)(inf|nan)(?:inity)?(?=\s*[,}\]])", re.IGNORECASE)
# Valid numbers fit into 64 bits.
_MOST = 10**19
_MOST_RANKS = 1 << 20
_TRUE = frozenset({"true", "unchecked"})
_RESULT_KEYS = (
    ("time", "time_us"),
    ("cpu_time", "time_us"),
    ("alg_bw", "algbw"),
    ("bus_bw", "busbw"),
    ("nwrong", "wrong"),
)


def _bare(match: re.Match[str]) -> str:
    return match[1] + match[2] + ("NaN" if match[3].lower() == "nan" else "Infinity")


def _load(text: str) -> tuple[dict[str, Any], bool]:
    """Return the object in the file, and whether the file is complete; a truncated file gives its complete results."""
    text = _BARE.sub(_bare, text.lstrip("\ufeff"))
    try:
        data = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return _rescue(text), False
    return (data, True) if isinstance(data, dict) else ({}, True)


def _rescue(text: str) -> dict[str, Any]:
    """Return the readable part of a truncated file."""
    data: dict[str, Any] = {}
    decoder = json.JSONDecoder(strict=False)
    for key in ("version", "nccl_version", "args", "config"):
        match = re.search(rf'"{key}"\s*:\s*', text)
        if match is not None:
            try:
                data[key] = decoder.raw_decode(text, match.end())[0]
            except (ValueError, RecursionError):
                continue
    match = re.search(r'"results"\s*:\s*\[\s*', text)
    if match is None:
        return data
    data["results"] = []
    at = match.end()
    while at < len(text):
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        data["results"].append(item)
        at += len(text[at : at + 200]) - len(text[at : at + 200].lstrip(", \r\n\t"))
    return data


def _number(value: Any, where: str, errors: list[str]) -> float | int | None:  # noqa: ANN401 - any JSON value
    """Return a finite number of at least 0; record any other value in errors."""
    number = math.nan
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number) or number < 0:
        errors.append(f"{where} is {str(value)[:40]}")
    if not math.isfinite(number):
        return None
    return value if isinstance(value, (int, float)) else number


def _whole(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    try:
        return int(str(value).strip())
    except ValueError:
        return None


def _half(item: Any, size: int, errors: list[str]) -> dict[str, Any] | None:  # noqa: ANN401 - any JSON value
    if not isinstance(item, dict):
        return None
    half: dict[str, Any] = {"time_us": None, "algbw": None, "busbw": None, "wrong": None}
    for key, field in _RESULT_KEYS:
        # Unchecked results have no count of wrong elements.
        if key in item and not (field == "wrong" and item[key] is None):
            half[field] = _number(item[key], f"size {size}: {field}", errors)
    wrong = half["wrong"]
    if isinstance(wrong, float) and wrong.is_integer():
        half["wrong"] = int(wrong)
    return half if any(value is not None for value in half.values()) else None


def _row(item: dict[str, Any], errors: list[str]) -> dict[str, Any]:
    size = _whole(item.get("size"))
    if size is None or not 0 <= size < _MOST:
        errors.append(f"a size is {str(item.get('size'))[:40]} (expected bytes)")
        size = 0
    return {
        "size": size,
        "count": _whole(item.get("count")),
        "type": _text(item.get("type")),
        "redop": _text(item.get("redop")),
        "root": _whole(item.get("root")),
        "out_of_place": _half(item.get("out_of_place"), size, errors),
        "in_place": _half(item.get("in_place"), size, errors),
    }


def _text(value: Any) -> str | None:  # noqa: ANN401 - any JSON value
    return value.strip() if isinstance(value, str) else None


def _program(args: Any) -> str | None:  # noqa: ANN401 - any JSON value
    first = args[0] if isinstance(args, list) and args and isinstance(args[0], str) else ""
    match = re.search(r"([a-z_]+)_perf", first)
    return f"{match[1].lstrip('_')}_perf" if match is not None else None


def _start(config: Any) -> dict[str, str] | None:  # noqa: ANN401 - any JSON value
    if not isinstance(config, dict):
        return None
    step = _whole(config.get("step_factor", 0)) or 0
    found = {
        "threads": _whole(config.get("nthreads", 1)),
        "gpus": _whole(config.get("ngpus", 1)),
        "min": _whole(config.get("minimum_bytes", 0)),
        "max": _whole(config.get("maximum_bytes", 0)),
        "step": step if step > 1 else _whole(config.get("step_bytes", 0)),
    }
    if any(value is None or not 0 <= value < _MOST for value in found.values()):
        return None
    return {**{key: str(value) for key, value in found.items()}, "unit": "factor" if step > 1 else "bytes"}


def parse_json(text: str, run: dict[str, Any]) -> dict[str, Any] | None:
    """Return the run filled from the text of a JSON file, or None if nccl-tests did not write it.

    The environment in the file is not read, because it may contain secrets. The file lists only the first device of
    each process (writeDeviceReport in src/util.cu, 2.17.3 to 2.19.6), so the ranks are known only if each process has
    one device.
    """
    data, whole = _load(text)
    results = data.get("results")
    if not isinstance(results, list) or ("config" not in data and "nccl_version" not in data):
        return None
    errors: list[str] = []
    run["program"] = _program(data.get("args"))
    run["nccl_version"] = _text(str(data["nccl_version"])) if data.get("nccl_version") is not None else None
    for item in results:
        if isinstance(item, dict):
            bad: list[str] = []
            run["rows"].append(_row(item, bad))
            errors += bad
            run["seen"]["printed"].append(Printed(0, "", ({}, {}), tuple(bad)))
            halves = [half for half in (item.get("out_of_place"), item.get("in_place")) if isinstance(half, dict)]
            run["cpu_time"] |= any("cpu_time" in half for half in halves)
    _footer(run, data, errors)
    listed = data.get("errors")
    errors += [str(error)[:300] for error in listed] if isinstance(listed, list) else []
    if not whole:
        errors.append("the JSON file is truncated")
    run["errors"] = errors[:50]
    seen = run["seen"]
    start = _start(data.get("config"))
    seen.update(begun=True, text=True, check="wrong", start=start, cut=not whole)
    if start is not None and (start["threads"], start["gpus"]) == ("1", "1"):
        _ranks(data["config"].get("devices"), seen)
    return run


def _ranks(devices: Any, seen: dict[str, Any]) -> None:  # noqa: ANN401 - any JSON value
    """Store the ranks in the format of the text output's rank lines, unless an entry is malformed."""
    lines: dict[int, tuple[str, str]] = {}
    groups: list[str] = []
    for item in devices if isinstance(devices, list) else []:
        found = item if isinstance(item, dict) else {}
        rank, host, name = _whole(found.get("rank")), _text(found.get("hostname")), _text(found.get("device_info"))
        if rank is None or not 0 <= rank < _MOST_RANKS or not host or name is None or rank in lines:
            return
        lines[rank] = (host, name)
        groups.append(str(_whole(found.get("group", 0))))
    seen["rank_lines"], seen["groups"] = lines, list(dict.fromkeys(groups))


def _footer(run: dict[str, Any], data: dict[str, Any], errors: list[str]) -> None:
    bounds = data.get("out_of_bounds")
    if isinstance(bounds, dict):
        count = _whole(bounds.get("count"))
        if count is not None and 0 <= count < _MOST:
            run["out_of_bounds"] = count
        okay = bounds.get("okay", True)
        run["seen"]["failed_words"] = okay is not True and str(okay).lower() not in _TRUE
    average = data.get("average_bus_bandwidth", data.get("average_bus_bandwidith"))
    if isinstance(average, dict):
        value = average.get("bandwidth", average.get("bandwidith"))
        strange: list[str] = []
        run["avg_busbw"] = _number(value, "the average", strange)
        errors += strange
        run["seen"]["strange_footer"] += strange
