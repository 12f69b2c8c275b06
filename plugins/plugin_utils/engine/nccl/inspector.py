# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the records of NCCL's Inspector, a profiler plugin, about the last operations of each rank.

The job puts ``# busbar inspector: NODE `` before each line, and ``- N files`` after the last line of a node. A line is
one JSON object: header (id, rank, n_ranks), metadata and coll_perf (coll, coll_sn, coll_msg_size_bytes,
coll_exec_time_us, coll_busbw_gbs) or p2p_perf, which is not reported (NVIDIA/nccl, plugins/profiler/inspector, format
"v4.0" in README.md and inspector_json.cc of NCCL 2.30.7, commit 5067397c; ext-profiler/inspector before).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from math import isfinite
from statistics import fmean
from typing import Any, NamedTuple

from ..common.option_names_in_messages import option

_LINE = re.compile(r"^# busbar inspector: (\S{1,255}) (.*)$", re.MULTILINE)
_END = re.compile(r"- (\d{1,6}) files")
_VERSION = "v4."
_MOST_BAD = 3
_MOST_NAMED = 4
_QUOTED = 100
_NUMBERS = ("coll_sn", "coll_msg_size_bytes", "coll_exec_time_us")
_LARGEST_NUMBER = 2**64
# Times of ranks that differ by less than this factor count as equal.
_UNLIKE = 1.1


class _Record(NamedTuple):
    """One rank's part of a collective operation."""

    comm: str
    rank: int
    ranks: int
    node: str
    name: str
    number: int
    size: int
    time_us: int
    busbw: float


def inspector_words(text: str) -> list[str]:
    """Return a summary of the Inspector's records in the output of a test that did not pass. Never raises."""
    lines = _LINE.findall(text)
    if not lines:
        return []
    records: list[_Record] = []
    bad: list[str] = []
    seen: dict[str, bool] = {}
    for node, line in lines:
        end = _END.fullmatch(line)
        if end is not None:
            seen.setdefault(node, False)
            continue
        seen[node] = True
        record, problem = _read(node, line)
        if record is not None:
            records.append(record)
        elif problem:
            bad.append(f'NCCL Inspector: a line of {node} {problem}: "{_plain(line)}"')
    silent = [node for node, wrote in seen.items() if not wrote]
    found = [f"NCCL Inspector: no records from {_few(silent)}; see {option('inspector')}"] if silent else []
    for comm in dict.fromkeys(record.comm for record in records):
        found += _of_communicator(comm, [record for record in records if record.comm == comm])
    more = [f"NCCL Inspector: {len(bad) - _MOST_BAD} more lines cannot be read"] if len(bad) > _MOST_BAD else []
    return found + bad[:_MOST_BAD] + more


def _read(node: str, line: str) -> tuple[_Record | None, str]:
    """Return the record in a line, or the problem with the line; for point-to-point operations, None and ''."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return None, "is not JSON"
    if not isinstance(given, dict):
        return None, "is not a JSON object"
    if "coll_perf" not in given and isinstance(given.get("p2p_perf"), dict):
        return None, ""
    problem = _problem(given)
    if problem:
        return None, problem
    header, perf = given["header"], given["coll_perf"]
    place = (_plain(header["id"]), header["rank"], header["n_ranks"], node)
    what = (_plain(perf["coll"]), perf["coll_sn"], perf["coll_msg_size_bytes"], perf["coll_exec_time_us"])
    return _Record(*place, *what, float(perf["coll_busbw_gbs"])), ""


def _problem(given: dict[str, Any]) -> str:
    """Return why an object is not a record; empty if it is a record."""
    header, metadata, perf = (given.get(key) for key in ("header", "metadata", "coll_perf"))
    if not (isinstance(header, dict) and isinstance(metadata, dict) and isinstance(perf, dict)):
        return "lacks header, metadata or coll_perf"
    version = metadata.get("inspector_output_format_version")
    if not (isinstance(version, str) and version.startswith(_VERSION)):
        return f"has the format {_plain(version)} (supported: {_VERSION}x)"
    numbers = [header.get(key) for key in ("rank", "n_ranks")] + [perf.get(key) for key in _NUMBERS]
    if not all(type(each) is int and 0 <= each < _LARGEST_NUMBER for each in numbers):
        return "lacks a number"
    if not all(isinstance(each, str) and each for each in (header.get("id"), perf.get("coll"))):
        return "lacks the name of a communicator or collective"
    busbw: Any = perf.get("coll_busbw_gbs")
    known = type(busbw) in {int, float} and isfinite(busbw) and busbw >= 0
    return "" if known and header["rank"] < header["n_ranks"] else "contradicts itself"


def _of_communicator(comm: str, records: list[_Record]) -> list[str]:
    """Return the ranks without records, the ranks that are behind, and the slowest operation with differing ranks."""
    place = {record.rank: record.node for record in records}
    missing = [str(rank) for rank in range(min(records[0].ranks, 1 << 20)) if rank not in place]
    title = f"NCCL Inspector, communicator {comm}"
    found = [f"{title}: rank {_few(missing)} has no records"] if missing else []
    for name in dict.fromkeys(record.name for record in records):
        of_kind = [record for record in records if record.name == name]
        last = {record.rank: 0 for record in of_kind}
        for record in of_kind:
            last[record.rank] = max(last[record.rank], record.number)
        most = max(last.values())
        late = sorted(rank for rank, number in last.items() if number < most)
        if late:
            named = _few([f"{rank} of {place[rank]}" for rank in late])
            number = last[late[0]]
            found.append(f"{title}: the last {name} completed by rank {named} is number {number} (others: {most})")
        found += _slowest(title, name, of_kind)
    return found


def _slowest(title: str, name: str, records: list[_Record]) -> list[str]:
    """Return the slowest operation of the largest size that all ranks recorded."""
    size = max(record.size for record in records)
    by_number: dict[int, list[_Record]] = {}
    for record in records:
        if record.size == size:
            by_number.setdefault(record.number, []).append(record)
    whole = [each for each in by_number.values() if {record.rank for record in each} == set(range(each[0].ranks))]
    if not whole:
        return []
    slow = max(whole, key=lambda each: max(record.time_us for record in each))
    longest, shortest = (pick(slow, key=lambda record: record.time_us) for pick in (max, min))
    busbw = min(record.busbw for record in slow)
    words = f"{title}: the slowest {name} of {size} B took {longest.time_us} us, {busbw:.4g} GB/s"
    if longest.time_us > shortest.time_us * _UNLIKE:
        late = Counter(min(each, key=lambda record: record.time_us).rank for each in whole).most_common(1)[0]
        words += (
            f"; longest on rank {longest.rank} of {longest.node}, shortest on rank {shortest.rank} of {shortest.node} "
            f"({shortest.time_us} us): the other ranks waited for it; rank {late[0]} had the shortest time "
            f"in {late[1]} of {len(whole)} operation(s)"
        )
    usual = fmean(max(record.time_us for record in each) for each in whole)
    return [f"{words}; mean of {len(whole)} operation(s): {usual:.0f} us"]


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _plain(value: object) -> str:
    text = "".join(char if char.isprintable() else " " for char in str(value))
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
