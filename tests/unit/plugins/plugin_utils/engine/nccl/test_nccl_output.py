"""Tests of the parser with complete, wrapped, truncated and wrong outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.line_parser import Parser
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import (
    MAX_LINE,
    parse_lines,
    parse_text,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIXTURES = Path(__file__).parents[5] / "fixtures" / "nccl"
WHOLE = (FIXTURES / "all_reduce_2x8.txt").read_text()
MPI = (FIXTURES / "mpi_2_nodes.txt").read_text()
KEYS = {
    "program",
    "nccl_tests_version",
    "nccl_version",
    "ranks",
    "nodes",
    "devices",
    "columns",
    "rows",
    "avg_busbw",
    "out_of_bounds",
    "checked",
    "errors",
    "outcome",
}
ROW = re.compile(r"^ *\d+ +\d+ +float .*\n", re.MULTILINE)
RANK = re.compile(r"^# +Rank .*\n", re.MULTILINE)


def one(text: str) -> dict[str, Any]:
    runs = parse_text(text)["runs"]
    assert len(runs) == 1
    return runs[0]


def test_complete_output_has_every_documented_key() -> None:
    run = one(WHOLE)
    assert set(run) >= KEYS
    assert run["program"] == "all_reduce_perf"
    assert run["nccl_tests_version"] == "2.18.3"
    assert run["nccl_version"] == "2.27.3+cuda12.9"
    assert (run["ranks"], run["nodes"], len(run["devices"])) == (16, 2, 16)
    assert run["devices"][0] == "NVIDIA H100 80GB HBM3"
    assert run["columns"][:5] == ["size", "count", "type", "redop", "root"]
    assert run["outcome"] == "ok"
    assert run["checked"]
    assert run["out_of_bounds"] == 0
    assert run["avg_busbw"] == 334.125
    row = run["rows"][-1]
    assert (row["size"], row["count"], row["type"], row["redop"], row["root"]) == (8 << 30, 2 << 30, "float", "sum", -1)
    assert row["out_of_place"]["busbw"] == 350
    assert row["out_of_place"]["wrong"] == 0


def test_output_of_the_mpi_program_is_complete() -> None:
    run = one(MPI)
    assert run["outcome"] == "ok"
    assert run["hosts"] == ["gpu1", "gpu2"]
    assert run["rows"][-1]["size"] == 16 << 20


def _each(text: str, change: str) -> str:
    return "".join(change + line for line in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    "text",
    [
        _each(WHOLE, "0: "),
        _each(WHOLE, "  0: "),
        _each(WHOLE, "[1,0]<stdout>:"),
        _each(WHOLE, "    [1,0]<stdout>:"),
        _each(WHOLE, "nccl-test_1  | "),
        _each(WHOLE, "    "),
        WHOLE.replace("\n", "\r\n"),
        _each(WHOLE, "\x1b[32m"),
        WHOLE.replace(
            "-1  ", "-1gpu1:77:77 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/2/GDRDMA\n   ", 1
        ),
        WHOLE.replace("-1  ", "-138dcf168f605:1375:1375 [0] NCCL INFO comm 0x55\nanother line\n  ", 1),
        re.sub(r"      0\n", "      038dcf168f605:1375:1375 [0] NCCL INFO done\n", WHOLE, count=1),
        "".join(
            f"gpu1:1:1 [{n}] NCCL INFO noise {n}\n{line}" for n, line in enumerate(WHOLE.splitlines(keepends=True))
        ),
    ],
    ids=[
        "srun",
        "srun padded",
        "mpirun",
        "indented mpirun",
        "compose",
        "indent",
        "crlf",
        "colour",
        "split",
        "digits",
        "glued",
        "noise",
    ],
)
def test_text_around_the_table_is_ignored(text: str) -> None:
    run, plain = one(text), one(WHOLE)
    for key in ("rows", "ranks", "outcome", "avg_busbw", "out_of_bounds"):
        assert run[key] == plain[key], key


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", "no-data"),
        ("hello\nworld\n", "no-data"),
        ("srun: error: gpu1: task 0: Exited with exit code 3\n", "error-only"),
        ("bash: all_reduce_perf: command not found\n", "error-only"),
        (WHOLE[: WHOLE.index("NCCL version")], "hung"),
        (WHOLE[: WHOLE.index("# Out of")], "truncated"),
        (WHOLE[: WHOLE.index("# Out of")] + "gpu1: Test NCCL failure common.cu:393 'unhandled'\n", "crashed"),
        (
            WHOLE[: WHOLE.index("NCCL version")] + "slurmstepd: error: *** STEP 1.0 ON gpu1 CANCELLED AT x ***\n",
            "crashed",
        ),
        (WHOLE.replace("values : 0 OK", "values : 4 FAILED"), "wrong-results"),
        (WHOLE.replace("       0\n", "       3\n", 1), "wrong-results"),
        (re.sub(r"\d{3}\.\d\d ", "XXX.XX ", WHOLE), "template"),
        (ROW.sub("", WHOLE), "truncated"),
    ],
)
def test_outcome_of_an_output(text: str, outcome: str) -> None:
    assert one(text)["outcome"] == outcome


@pytest.mark.parametrize("at", range(4))
def test_missing_row_is_detected(at: int) -> None:
    match = list(ROW.finditer(WHOLE))[at]
    assert one(WHOLE[: match.start()] + WHOLE[match.end() :])["outcome"] == "truncated"


@pytest.mark.parametrize("at", range(16))
def test_missing_rank_is_detected(at: int) -> None:
    match = list(RANK.finditer(WHOLE))[at]
    run = one(WHOLE[: match.start()] + WHOLE[match.end() :])
    assert run["outcome"] == "truncated"
    assert any("rank line" in error for error in run["errors"])


def test_unchecked_results_are_ok_and_marked_as_unchecked() -> None:
    run = one(re.sub(r"(\d\.\d\d)       0\b", r"\1     N/A", WHOLE))
    assert run["outcome"] == "ok"
    assert run["checked"] is False


def test_non_finite_numbers_are_null_and_reported() -> None:
    run = one(WHOLE.replace("310.25 ", "   inf ", 1))
    assert run["rows"][0]["out_of_place"]["busbw"] is None
    assert any("inf" in error for error in run["errors"])
    json.dumps(run, allow_nan=False)


def test_runs_of_one_file_are_separated() -> None:
    text = WHOLE + "$ ./all_gather_perf -b 8\n" + WHOLE.replace("# Collective test starting: all_reduce_perf\n", "")
    runs = parse_text(text.replace("# Collective test concluded: all_reduce_perf\n", ""))["runs"]
    assert [run["program"] for run in runs] == ["all_reduce_perf", "all_gather_perf"]


def test_old_error_column_is_not_a_count_of_wrong_elements() -> None:
    text = (
        "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "   536870912     134217728     float     sum    25775   20.83   41.33  2e-06    25779   20.83   41.33  2e-06\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 41.33\n"
    )
    run = one(text)
    assert run["outcome"] == "ok"
    assert run["rows"][0]["root"] is None
    assert run["rows"][0]["out_of_place"]["time_us"] == 25775


def test_nccl_lines_give_the_fabric_data() -> None:
    lines = (
        "gpu1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
        "gpu1:1:1 [0] NCCL INFO Using network IB\n"
        "gpu1:1:1 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
        "gpu1:1:1 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels\n"
    )
    at = WHOLE.index("NCCL version")
    assert one(WHOLE[:at] + lines + WHOLE[at:])["fabric"] == {
        "networks": ["IB"],
        "nics": ["mlx5_0", "mlx5_1"],
        "gdrdma": True,
        "nvls": True,
        "in_network": None,
        "rails": {"gpu1": {"listed": ["mlx5_0", "mlx5_1"], "carried": ["mlx5_0"]}},
    }


def _json() -> dict[str, Any]:
    half = {"time": 107374.1824, "alg_bw": 10.0, "bus_bw": 10.0, "nwrong": 0}
    row = {"size": 1 << 30, "count": 1 << 28, "type": "float", "redop": "sum", "root": "    -1"}
    return {
        "version": 3,
        "args": ["./build/all_reduce_perf", "-g", "2"],
        "env": {"SECRET": "not to be kept"},
        "nccl_version": 22807,
        "config": {"nthreads": 1, "ngpus": 2, "minimum_bytes": 1 << 30, "maximum_bytes": 1 << 30, "step_factor": 2},
        "results": [{**row, "out_of_place": half, "in_place": half}],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidith": {"bandwidith": 10.0, "okay": "unchecked"},
        "errors": [],
    }


def test_json_file_gives_the_same_keys_without_the_environment() -> None:
    run = one(json.dumps(_json()))
    assert set(run) >= KEYS
    assert (run["outcome"], run["program"], run["avg_busbw"]) == ("ok", "all_reduce_perf", 10.0)
    assert run["rows"][0]["root"] == -1
    assert "not to be kept" not in json.dumps(run)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda text: text[: text.index('"out_of_bounds"')], "truncated"),
        (lambda text: text.replace('"bus_bw": 10.0', '"bus_bw": inf', 1), "contradictory"),
        (lambda text: text.replace('"nwrong": 0', '"nwrong": 7', 1), "wrong-results"),
    ],
)
def test_truncated_or_invalid_json_keeps_its_rows(change: Any, outcome: str) -> None:  # noqa: ANN401 - a function on text
    run = one(change(json.dumps(_json())))
    assert run["outcome"] == outcome
    assert len(run["rows"]) == 1


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 400, "9" * 5000, "0", "1"])
def test_impossible_values_do_not_raise(digits: str) -> None:
    for place in re.finditer(r"\d+(?:\.\d+)?", WHOLE):
        parse_text(WHOLE[: place.start()] + digits + WHOLE[place.end() :])


@pytest.mark.parametrize("value", ["x", None, -1, 2.5, 10**400, {}])
@pytest.mark.parametrize("key", ["nthreads", "minimum_bytes", "maximum_bytes", "step_factor"])
def test_json_settings_that_are_not_numbers_do_not_raise(key: str, value: Any) -> None:  # noqa: ANN401
    data = _json()
    data["config"][key] = value
    assert len(one(json.dumps(data))["rows"]) == 1


@pytest.mark.parametrize("value", ["x", None, -1, 10**400, {}, [], True, "nan", float("inf")])
@pytest.mark.parametrize(
    "place",
    [
        ("results", 0, "size"),
        *(("results", 0, "out_of_place", key) for key in ("time", "alg_bw", "bus_bw", "nwrong")),
        ("out_of_bounds", "count"),
        ("average_bus_bandwidith", "bandwidith"),
    ],
)
def test_json_file_with_a_non_numeric_value_is_not_ok(place: tuple[Any, ...], value: Any) -> None:  # noqa: ANN401
    data: Any = _json()
    inner = json.loads(json.dumps(data))
    at = inner
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    run = one(json.dumps(inner))
    # An unchecked half has no count of wrong elements.
    assert (run["outcome"] == "ok") is (place[-1] == "nwrong" and value is None)


def test_json_cpu_time_is_not_compared_with_the_bandwidth() -> None:
    text = json.dumps(_json()).replace("107374.1824", "3.5")
    assert one(text)["outcome"] == "contradictory"
    assert one(text.replace('"time"', '"cpu_time"'))["outcome"] == "ok"


def test_endless_line_does_not_exhaust_the_memory() -> None:
    assert parse_lines(["x" * (3 * MAX_LINE)])["runs"][0]["outcome"] == "no-data"


@given(st.text(max_size=400))
def test_any_text_is_parsed_without_an_exception(text: str) -> None:
    json.dumps(parse_text(text), allow_nan=False)


PIECES = [
    "gpu1:1:1 [0] NCCL INFO ",
    "gpu1:1:1 [0] NCCL WARN ",
    "[1,0]<stdout>:",
    "[1,3]<stderr>:",
    "0: ",
    "web-1  | ",
    "[pod][box] ",
    "\x1b[0m",
    "\r",
    "Using network IB",
    "Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0",
    "/GDRDMA",
    "/Shared",
    "GPU Direct RDMA Disabled for HCA 0",
    "NCCL version 2.21.5+cuda12.4",
    "nccl-tests version 2.13.9",
    "16 nvls channels",
    "NVLS comm 0x1",
    " 8 2 float sum -1 24.1 0.00 0.00 0",
    " 23.9 0.00 0.00 0",
    "# Out of bounds values : 0 OK",
    "\n",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_fast_path_for_nccl_lines_gives_the_same_result(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parser, "is_library", lambda _parser, _raw: False)
        wanted = parse_text(text)
    assert parse_text(text) == wanted


PARTS = [(m.start(), m.end()) for pattern in (ROW, RANK) for m in pattern.finditer(WHOLE)]
PARTS.append((WHOLE.index("# Out of"), WHOLE.index("# Avg")))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.sampled_from(PARTS),
    st.lists(
        st.tuples(st.integers(0, len(WHOLE)), st.sampled_from(["\x00", "\r\n", "0: ", "gpu1:1:1 NCCL INFO x\n"])),
        max_size=4,
    ),
)
def test_output_without_a_row_a_rank_or_its_footer_is_not_ok(
    part: tuple[int, int], noise: list[tuple[int, str]]
) -> None:
    text = WHOLE[: part[0]] + WHOLE[part[1] :]
    for at, what in noise:
        text = text[:at] + what + text[at:]
    runs = parse_text(text)["runs"]
    json.dumps(runs, allow_nan=False)
    assert any(run["outcome"] != "ok" for run in runs)


def test_header_with_a_lost_column_is_not_ok() -> None:
    (run,) = parse_text(WHOLE.replace("busbw", "bus\x00bw", 1))["runs"]
    assert run["outcome"] != "ok"
