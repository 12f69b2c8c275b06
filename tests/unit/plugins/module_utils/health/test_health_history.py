"""Tests of the health check history: which events are recorded, and the limit of the file size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.health.check_history import (
    MOST_BYTES,
    append,
    entries,
    keys_of,
    last_entries,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.finding import RESET, Finding

if TYPE_CHECKING:
    from pathlib import Path

LOST = Finding("gpu", RESET, "GPU 1 (ffff:02:00.0) is lost")


def full(mib: int) -> Finding:
    return Finding("disk", RESET, f"/ is full: {mib} MiB free, 100 are needed")


def new(
    before: list[Finding], found: list[Finding], done: str = "nothing", *, booted: bool = False, whole: bool = True
) -> list[tuple[str, str]]:
    """Return the events of a second health check, and their subjects."""
    last_findings = {key: each.problem for key, each in keys_of(before).items()}
    written = entries(last_findings, found, done, reason="busbar health: x", booted=booted, whole=whole, now=5.4)
    assert all(each["at"] == 5 for each in written)
    return [(each["event"], each.get("check", "")) for each in written]


def test_new_and_cleared_findings_are_recorded() -> None:
    assert new([], [LOST, full(9)], "drain") == [("found", "gpu"), ("found", "disk"), ("drain", "")]
    assert new([LOST, full(9)], [full(8)], "keep") == [("cleared", "gpu")]
    assert new([LOST], [], "resume", booted=True) == [("boot", ""), ("cleared", "gpu"), ("resume", "")]


def test_other_gpu_or_other_xid_is_a_new_finding() -> None:
    other = LOST._replace(problem="GPU 2 (ffff:02:00.0) is lost")
    assert new([LOST], [LOST, other]) == [("found", "gpu")]
    xids = [Finding("xid", RESET, f"GPU 0000:23:00: Xid {number} (pid=1)") for number in (79, 48)]
    assert new(xids[:1], xids) == [("found", "xid")]
    places = ("0000:18:00", "0000:19:00", "0000:19:00 GPU-I:05", "0000:19:00 GPU-I:06")
    others = [Finding("xid", RESET, f"GPU {place}: Xid 79 (pid=1)") for place in places]
    assert new(others[:1], others) == [("found", "xid")] * 3


def test_incomplete_check_clears_no_finding() -> None:
    assert new([LOST], [], whole=False) == []


def test_repeatedly_withheld_drain_is_recorded_once() -> None:
    assert new([], [LOST], "withheld") == [("found", "gpu"), ("withheld", "")]
    assert new([LOST], [LOST], "withheld") == []


def test_file_size_is_limited_and_the_newest_entries_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.jsonl"
    assert last_entries(path, 5) == ([], 0)
    for place in range(20):
        times = range(200 * place, 200 * place + 200)
        append(path, [{"at": at, "event": "found", "problem": "x" * 300} for at in times])
        assert path.stat().st_size <= MOST_BYTES
    found, damaged = last_entries(path, 3)
    assert ([each["at"] for each in found], damaged) == ([3997, 3998, 3999], 0)


def test_damaged_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    good = json.dumps({"at": 1, "event": "boot"})
    path.write_bytes(b"\n".join([b"{", good.encode(), b'{"at": "x", "event": "boot"}', b"[]", b"\xff\xfe", b""]))
    assert last_entries(path, 9) == ([{"at": 1, "event": "boot"}], 4)
