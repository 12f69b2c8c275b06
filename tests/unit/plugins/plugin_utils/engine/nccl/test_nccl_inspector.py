"""Tests of NCCL Inspector records: missing ranks, late ranks, and the slowest operation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.inspector import inspector_words

# NVIDIA/nccl, commit 5067397c (2.30.7), plugins/profiler/inspector/README.md, "Output Example", on one line as
# inspector_json.cc writes it.
DOCUMENTED = (
    '{"header": {"id": "0x7f8c496ae9f661", "rank": 2, "n_ranks": 8, "nnodes": 1}, "metadata": '
    '{"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "profiler_plugin", '
    '"dump_timestamp_us": 1748030377748202, "hostname": "example-hostname", "pid": 1639453}, "coll_perf": '
    '{"coll": "AllReduce", "coll_sn": 1407, "coll_msg_size_bytes": 17179869184, "coll_exec_time_us": 61974, '
    '"coll_algobw_gbs": 277.210914, "coll_busbw_gbs": 485.119099}}'
)
TITLE = "NCCL Inspector, communicator 0x7f8c496ae9f661"


def record(rank: int, number: int = 1407, **changes: Any) -> str:  # noqa: ANN401 - any value
    """Return the documented record of two ranks, with changes of its coll_perf."""
    found = json.loads(DOCUMENTED)
    found["header"] |= {"rank": rank, "n_ranks": 2}
    found["coll_perf"] |= {"coll_sn": number, **changes}
    return json.dumps(found)


def said(lines: dict[str, list[str]]) -> str:
    """Return the lines as the job prints them within its output."""
    told = [f"# busbar inspector: {node} {line}" for node, each in lines.items() for line in each]
    ends = [f"# busbar inspector: {node} - {1 if each else 0} files" for node, each in lines.items()]
    return "\n".join(["# nccl-tests", *told, *ends, "# busbar exit: all_reduce 1 0\n"])


def test_documented_record_is_parsed() -> None:
    assert inspector_words(said({"gpu1": [DOCUMENTED]})) == [f"{TITLE}: rank 0, 1, 3, 4 and 3 more has no records"]


def test_slowest_operation_is_reported_with_the_rank_that_delayed_the_others() -> None:
    lines = {
        "gpu1": [record(0, number, coll_exec_time_us=60000 + number) for number in (1, 2, 3)],
        "gpu2": [record(1, number, coll_exec_time_us=20000 + number, coll_busbw_gbs=400) for number in (1, 2, 3)],
    }
    # Operations of smaller size are ignored.
    lines["gpu1"].insert(0, record(0, 0, coll_exec_time_us=99999, coll_msg_size_bytes=8))
    (found,) = inspector_words(said(lines))
    assert found == (
        f"{TITLE}: the slowest AllReduce of 17179869184 B took 60003 us, 400 GB/s; longest on rank 0 of gpu1, shortest "
        "on rank 1 of gpu2 (20003 us): the other ranks waited for it; rank 1 had the shortest time in 3 of 3 "
        "operation(s); mean of 3 operation(s): 60002 us"
    )


def test_ranks_with_similar_times_are_not_distinguished() -> None:
    found = inspector_words(said({"gpu1": [record(0)], "gpu2": [record(1, coll_exec_time_us=61000)]}))
    assert found == [
        f"{TITLE}: the slowest AllReduce of 17179869184 B took 61974 us, 485.1 GB/s; mean of 1 operation(s): 61974 us"
    ]


def test_late_rank_and_node_without_a_file_are_named() -> None:
    found = inspector_words(said({"gpu1": [record(0, 5)], "gpu2": [record(1, 3)], "gpu3": []}))
    assert found == [
        "NCCL Inspector: no records from gpu3; see validation_inspector",
        f"{TITLE}: the last AllReduce completed by rank 1 of gpu2 is number 3 (others: 5)",
    ]


def test_point_to_point_operations_are_ignored() -> None:
    found = json.loads(record(0))
    found["p2p_perf"] = {"p2p": "Send", "p2p_peer": 1}
    del found["coll_perf"]
    assert inspector_words(said({"gpu1": [json.dumps(found), record(0), record(1)]})) == [
        f"{TITLE}: the slowest AllReduce of 17179869184 B took 61974 us, 485.1 GB/s; mean of 1 operation(s): 61974 us"
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (record(0)[:200], "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[3]", "is not a JSON object"),
        ("{}", "lacks header, metadata or coll_perf"),
        (record(0).replace("v4.0", "v5.1"), "has the format v5.1 (supported: v4.x)"),
        (record(0, -1), "lacks a number"),
        (record(0, coll_sn=True), "lacks a number"),
        (record(0, coll_exec_time_us="61974"), "lacks a number"),
        (record(0, coll_msg_size_bytes=None), "lacks a number"),
        (record(0, coll=""), "lacks the name of a communicator or collective"),
        (record(2), "contradicts itself"),
        (record(0, coll_busbw_gbs=float("nan")), "contradicts itself"),
        (record(0, coll_busbw_gbs=-1), "contradicts itself"),
    ],
)
def test_invalid_line_is_reported(line: str, problem: str) -> None:
    found = inspector_words(said({"gpu1": [line, record(0), record(1)]}))
    assert len(found) == 2
    quoted = line if len(line) <= 100 else f"{line[:100]}…"
    assert found[1] == f'NCCL Inspector: a line of gpu1 {problem}: "{quoted}"'


def test_only_the_first_of_many_bad_lines_are_quoted() -> None:
    found = inspector_words(said({"gpu1": ["x"] * 9}))
    assert (len(found), found[-1]) == (4, "NCCL Inspector: 6 more lines cannot be read")


def test_without_the_plugin_nothing_is_reported() -> None:
    assert inspector_words("# nccl-tests\n# busbar exit: all_reduce 1 0\n") == []
