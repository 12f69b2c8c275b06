"""Tests of the storage verdict on outputs with a single fault."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.storage.storage_judge import (
    judge_storage,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.storage.storage_parser import (
    read_storage,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.storage.storage_results import (
    Limits,
    rate_words,
)
from hypothesis import given
from hypothesis import strategies as st
from storage_samples import drop, edit, private, storage_lines, storage_text

if TYPE_CHECKING:
    from collections.abc import Callable

LOW: dict[str, float | None] = {"write": 100e6, "read": 100e6}
NONE: dict[str, float | None] = {"write": None, "read": None}


def names(count: int) -> list[str]:
    return [f"gpu{number}" for number in range(1, count + 1)]


def judged(
    count: int,
    *changes: Callable[[dict[str, Any]], dict[str, Any] | None],
    floors: dict[str, float | None] | None = None,
    speed: bool = True,
    asked: int = 0,
) -> dict[str, Any]:
    nodes = names(asked or count)
    limits = Limits("/shared", dict.fromkeys(nodes, floors or LOW), "a test", speed)
    return judge_storage(read_storage(storage_text(storage_lines(count, *changes))), nodes, limits)


def blamed(answer: dict[str, Any]) -> list[str]:
    return [item["node"] for item in answer["blamed"]]


@pytest.mark.parametrize("count", [2, 3, 5, 64])
def test_healthy_storage_passes_and_names_the_slowest_nodes(count: int) -> None:
    answer = judged(count, edit("speed-read", "gpu2", rate=333_000_000))
    assert (answer["verdict"], answer["blamed"], answer["findings"]) == ("PASS", [], [])
    shared = f"{count} nodes share /shared, with working locks and atomic renames"
    assert answer["reason"] == f"{shared}; slowest write 400 MB/s (gpu1); slowest read 333 MB/s (gpu2)"
    row = answer["storage"]["nodes"][1]
    assert (row["node"], row["verdict"], row["read"], row["read_floor"]) == ("gpu2", "PASS", 333_000_000, 100e6)
    assert (answer["storage"]["mode"], answer["storage"]["write_median"]) == ("direct", 400e6)


@pytest.mark.parametrize(
    ("count", "changes", "who", "words"),
    [
        (2, [private("gpu2")], ["gpu2"], "sees a different tree at /shared than the others: tmpfs tmpfs on /shared"),
        (2, [private("gpu1", mount="/")], ["gpu1"], "nothing is mounted there"),
        (3, [private("gpu2", type="nfs4")], ["gpu2"], "sees a different tree"),
        (8, [private("gpu2", "gpu7", type="nfs4")], ["gpu2", "gpu7"], "sees a different tree"),
        (3, [edit("see", "gpu3", result="stale", found=1)], ["gpu3"], "sees an old version of the file of gpu1"),
        (4, [edit("see", peer=1, result="missing")], ["gpu2"], "other nodes read its files incorrectly: gpu"),
        (2, [edit("see", "gpu1", result="wrong")], ["gpu1"], "reads different bytes than gpu2 wrote"),
        (2, [edit("see", "gpu1", result="Input/output {error}")], ["gpu1"], "of gpu2: Input/output (error)"),
        (3, [edit("rename", "gpu1", missing=3)], ["gpu1"], "while gpu3 replaced it: missing 3 times"),
        (3, [edit("rename", "gpu1", wrong=1)], ["gpu1"], "incomplete 1 times"),
        (3, [edit("rename", "gpu1", back=2)], ["gpu1"], "in an older version than before 2 times"),
        (2, [edit("write", "gpu2", ok=False, error="Read-only file system")], ["gpu2"], "cannot write: Read-only"),
        (
            3,
            [edit("write", "gpu2", ok=False, error="Permission denied")],
            ["gpu2"],
            "(use a directory that validation_user owns)",
        ),
        (2, [edit("back", "gpu2", result="wrong")], ["gpu2"], "reads back different data: wrong"),
        (
            3,
            [edit("lock", "gpu2", result="error", error="No locks available")],
            ["gpu2"],
            "cannot lock a file: No locks",
        ),
        (3, [edit("lock", "gpu2", result="never")], ["gpu2"], "did not get the lock that gpu1 had released"),
        (
            2,
            [edit("mount", "gpu2", locks="local"), edit("lock", result="granted")],
            ["gpu2"],
            "remove local_lock or nolock from its mount options",
        ),
        (
            4,
            [edit("lock", "gpu2", result="granted"), edit("lock", "gpu3", result="granted")],
            ["gpu2"],
            "file locks have no effect between this node and gpu1, gpu3",
        ),
        (3, [edit("speed-read", "gpu2", rate=90_000_000)], ["gpu2"], "reads 90 MB/s, floor 100 MB/s"),
        (2, [edit("speed-write", "gpu2", rate=1)], ["gpu2"], "writes 1e-06 MB/s"),
    ],
)
def test_faulty_node_is_named(count: int, changes: list[Any], who: list[str], words: str) -> None:
    answer = judged(count, *changes)
    assert (answer["verdict"], blamed(answer)) == ("FAIL", who), answer["reason"]
    assert words in answer["reason"]
    assert fold_hosts(who) in answer["reason"]
    rows = {row["node"]: row["verdict"] for row in answer["storage"]["nodes"]}
    assert [node for node, verdict in rows.items() if verdict == "FAIL"] == who


@pytest.mark.parametrize(
    ("count", "changes", "words"),
    [
        (2, [edit("write", ok=False, error="Read-only file system")], "all nodes, so the file system or its server"),
        (
            3,
            [edit("lock", result="error", error="No locks available")],
            "gpu[1-3]: cannot lock a file: No locks available",
        ),
        (3, [edit("lock", result="granted")], "locks have no effect: gpu"),
        (2, [edit("lock", result="granted")], "locks have no effect: gpu"),
        (3, [edit("speed-write", rate=5_000_000)], "gpu[1-3]: writes 5 MB/s, floor 100 MB/s"),
        (2, [private("gpu2", type="xfs", source="/dev/sda1")], "gpu[1-2] do not see the same tree"),
        (3, [private("gpu1", "gpu2", "gpu3", mount="/")], "gpu[1-3] do not see the same tree"),
    ],
)
def test_fault_of_all_nodes_blames_no_node(count: int, changes: list[Any], words: str) -> None:
    answer = judged(count, *changes)
    assert (answer["verdict"], answer["blamed"]) == ("FAIL", []), answer["findings"]
    assert words in answer["reason"]


@pytest.mark.parametrize(
    ("count", "changes", "floors", "words"),
    [
        (3, [drop("", "gpu2")], LOW, "gpu2: gave no result"),
        (3, [drop("lock", "gpu3")], LOW, "gpu3: no result for lock"),
        (3, [drop("speed-read", "gpu1")], LOW, "gpu1: no result for speed of read"),
        (3, [drop("see", "gpu1")], LOW, "gpu1: no result for the files of other nodes"),
        (3, [drop("write", "gpu1")], LOW, "gpu1: did not start writing"),
        (3, [edit("lock", "gpu1", result="no-turn")], LOW, "gpu1: could not try the lock of gpu3: no-turn"),
        (2, [edit("speed-write", "gpu2", rate=None, error="fio is not installed")], LOW, "fio is not installed"),
        (2, [edit("speed-write", rate=None, error="no room"), edit("room", free=10**9)], LOW, "1 GB free"),
        (
            2,
            [edit("write", ok=False, error="no room"), edit("room", free=0)],
            LOW,
            "no space: 0 MB free, 10 MB needed",
        ),
        (2, [], NONE, "no floor is known for the speed of write and read"),
        (2, [], {"write": 1.0, "read": None}, "no floor is known for the speed of read"),
        (1, [], LOW, "the test requires at least two nodes"),
    ],
)
def test_missing_data_is_inconclusive(
    count: int, changes: list[Any], floors: dict[str, float | None], words: str
) -> None:
    answer = judged(count, *changes, floors=floors)
    assert (answer["verdict"], answer["blamed"]) == ("INCONCLUSIVE", []), answer["reason"]
    assert words in answer["reason"]


def test_missing_rank_is_named() -> None:
    assert "gpu3: gave no result" in judged(2, asked=3)["reason"]


def test_correct_results_pass_if_speed_is_not_measured() -> None:
    quiet = [drop(f"speed-{way}", node) for way in ("write", "read") for node in names(2)]
    answer = judged(2, *quiet, floors=NONE, speed=False)
    assert (answer["verdict"], answer["reason"]) == (
        "PASS",
        "2 nodes share /shared, with working locks and atomic renames",
    )


def test_wrong_file_outweighs_a_missing_floor() -> None:
    answer = judged(3, edit("see", "gpu1", result="wrong"), floors=NONE)
    assert (answer["verdict"], blamed(answer)) == ("FAIL", ["gpu1"])
    assert any("no floor is known" in line for line in answer["findings"])


@pytest.mark.parametrize(("count", "told"), [(2, False), (3, True), (9, True)])
def test_rate_far_below_the_peers_is_reported_without_a_floor(count: int, told: bool) -> None:  # noqa: FBT001 - a table
    answer = judged(count, edit("speed-read", "gpu2", rate=100_000_000), floors=NONE)
    line = "gpu2: reads 100 MB/s, less than half of its peers (500 MB/s)"
    assert (answer["verdict"], line in answer["findings"]) == ("INCONCLUSIVE", told)


def test_number_of_findings_is_limited_in_a_large_cluster() -> None:
    answer = judged(200, *(edit("see", f"gpu{number}", result="wrong") for number in range(1, 120)))
    assert answer["verdict"] == "FAIL"
    assert len(answer["findings"]) <= 41


@pytest.mark.parametrize(
    ("rate", "words"), [(None, "unknown"), (12_300_000, "12.3 MB/s"), (2_346_000_000, "2.35 GB/s")]
)
def test_rates_are_formatted_for_readers(rate: float | None, words: str) -> None:
    assert rate_words(rate) == words


SOME = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CHECKS = [
    "mount",
    "room",
    "write",
    "back",
    "tree",
    "see",
    "rename",
    "lock",
    "speed-write",
    "speed-read",
    "problem",
    "x",
]
KEYS = ["peer", "result", "error", "ok", "tree", "rate", "mode", "free", "needed", "version", "missing", "file", "type"]
LINES = st.fixed_dictionaries(
    {"check": st.sampled_from(CHECKS), "rank": st.integers(-1, 4) | SOME, "node": st.sampled_from(names(4)) | SOME},
    optional={key: st.integers(-1, 5) | st.sampled_from(["ok", "granted", "missing"]) | SOME for key in KEYS},
)


@given(st.lists(LINES.map(json.dumps) | st.text(max_size=40), max_size=40))
def test_any_output_is_parsed_and_judged(lines: list[str]) -> None:
    data = read_storage("\n".join(f"busbar-storage {line}" for line in lines))
    assert [item["rank"] for item in data] == sorted({item["rank"] for item in data})
    answer = judge_storage(data, names(3), Limits("/shared", dict.fromkeys(names(3), LOW)))
    assert answer["verdict"] in {"PASS", "FAIL", "INCONCLUSIVE"}
    assert answer["reason"]
    assert "\n" not in answer["reason"]
    json.dumps(answer, allow_nan=False)


@given(st.data())
def test_truncated_good_output_blames_no_node(data: st.DataObject) -> None:
    lines = storage_text(storage_lines(3)).splitlines(keepends=True)
    kept = [line[: data.draw(st.integers(0, len(line)))] if data.draw(st.booleans()) else line for line in lines]
    answer = judge_storage(read_storage("".join(kept)), names(3), Limits("/shared", dict.fromkeys(names(3), LOW)))
    assert answer["blamed"] == []
    assert answer["verdict"] != "FAIL"
