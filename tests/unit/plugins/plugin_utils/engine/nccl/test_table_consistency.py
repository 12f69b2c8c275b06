"""Tests of consistent and inconsistent tables in all output formats."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.run_data import half_unit

NEW = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
OLD = "size count type redop time algbw busbw error time algbw busbw error"
# (n - 1) / n of eight ranks.
SHARE = 7 / 8


def number(value: float, *, wide: int, new: bool) -> str:
    """Return a number as nccl-tests prints it (src/util.cu, getFloatStr; before 2.17.3 src/common.cu, BenchTime)."""
    if not new:
        return f"{value:.2f}" if wide == 6 or value < 100 else f"{value:.1f}" if value < 10000 else f"{value:.0f}"
    forms = (f"{value:.2f}", f"{value:.1f}", f"{value:.0f}")
    return next((form for form in forms if len(form) <= wide), f"{value:.1e}" if wide >= 7 else f"{value:.0e}")


def output(  # noqa: PLR0913 - one parameter per difference of outputs
    program: str,
    factors: tuple[float, float],
    *,
    new: bool = True,
    slow: float = 1.0,
    head: str = "",
    ranks: int = 8,
    share: float = 1.0,
) -> str:
    """Return a table of eight ranks.

    Args:
        program: its name, or empty if the output does not contain it.
        factors: algbw / (size / time), and busbw / algbw.
        new: whether to use the format since 2.17.3.
        slow: factor on the usual time of each size.
        head: column headings.
        ranks: number of rank lines.
        share: factor on the printed times, which makes them contradict the bandwidths.
    """
    lines = [f"# Collective test starting: {program}_perf"] if program else []
    lines.append(
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 1"
    )
    lines += [f"#  Rank {n:2d} Pid 1 on gpu1 device {n} [0x19] NVIDIA H100" for n in range(ranks)]
    lines.append(f"# {head or (NEW if new else OLD)}")
    busbw = []
    for power in range(3, 34):
        size = 1 << power
        time = (20 + size / 200e3) * slow
        algbw = size / time / 1e3 * factors[0]
        busbw.append(algbw * factors[1])
        cells = [number(time * share, wide=7, new=new), *(number(v, wide=6, new=new) for v in (algbw, busbw[-1]))]
        half = " ".join([*cells, "0" if new else "2e-07"])
        lines.append(f"{size} {size // 4} float sum {'-1 ' if new else ''}{half} {half}")
    lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {sum(busbw) / len(busbw):g}"]
    return "\n".join(lines)


def one(text: str) -> dict[str, Any]:
    runs = parse_text(text)["runs"]
    assert len(runs) == 1
    return runs[0]


@pytest.mark.parametrize("version", ["2.17.3", "2.12"])
@pytest.mark.parametrize("slow", [0.01, 1.0, 1e4], ids=["fast", "usual", "slow"])
@pytest.mark.parametrize(
    ("program", "factors"),
    [
        ("all_reduce", (1, 2 * SHARE)),
        ("all_gather", (1, SHARE)),
        ("reduce_scatter", (1, SHARE)),
        ("alltoall", (1, SHARE)),
        ("gather", (1, SHARE)),
        ("scatter", (1, SHARE)),
        ("sendrecv", (1, 1)),
        ("broadcast", (1, 1)),
        ("reduce", (1, 1)),
        ("hypercube", (SHARE, 1)),
        # A matrix whose largest row is 1.5 times the mean.
        ("alltoallv", (1.5, SHARE)),
        ("", (1, 2 * SHARE)),
        ("", (1, SHARE)),
        ("", (1, 1)),
    ],
)
def test_rows_consistent_with_their_times_have_no_contradictions(
    program: str, factors: tuple[float, float], slow: float, version: str
) -> None:
    run = one(output(program, factors, slow=slow, new=version == "2.17.3"))
    assert (run["outcome"], run["contradictions"]) == ("ok", [])


@pytest.mark.parametrize("program", ["all_gather", "reduce_scatter"])
def test_algbw_of_versions_before_2_9_has_another_factor(program: str) -> None:
    assert one(output(program, (SHARE, 1), new=False))["outcome"] == "ok"
    # No version with the newer format does this.
    assert one(output(program, (SHARE, 1), new=True))["outcome"] != "ok"


@pytest.mark.parametrize(
    ("program", "factors"), [("all_reduce", (1, SHARE)), ("hypercube", (1, SHARE)), ("sendrecv", (SHARE, 1))]
)
def test_factors_of_another_program_are_refused(program: str, factors: tuple[float, float]) -> None:
    assert one(output(program, factors))["outcome"] != "ok"


def test_cpu_time_is_not_compared_with_the_bandwidth() -> None:
    text = output("all_reduce", (1, 2 * SHARE), share=0.01)
    assert one(text)["outcome"] == "contradictory"
    assert one(text.replace("time", "cputime"))["outcome"] == "ok"


def test_rows_without_rank_lines_are_compared_with_each_other() -> None:
    text = output("all_reduce", (1, 2 * SHARE), ranks=0)
    assert one(text)["outcome"] == "ok"
    lines = text.split("\n")
    row = next(number for number, line in enumerate(lines) if line.startswith("1073741824 "))
    cells = lines[row].split()
    cells[7] = f"{float(cells[7]) * 0.9:.2f}"
    run = one("\n".join([*lines[:row], " ".join(cells), *lines[row + 1 : -1]]))
    assert run["outcome"] == "contradictory"
    assert run["contradictions"][0].startswith(f"line {row + 1}: out-of-place: busbw is {cells[7]} (expected ")
    assert '"1073741824 268435456 float sum -1 ' in run["contradictions"][0]


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        (5, "nan", "time_us is nan"),
        (6, "inf", "algbw is inf"),
        (7, "-nan(ind)", "busbw is -nan(ind)"),
        (7, "-1.00", "busbw is -1.00"),
        (7, "N/A", "busbw is N/A"),
        (8, "inf", "wrong is inf"),
        (8, "-1", "wrong is -1"),
        (8, "N/A", "was not checked, but other rows were"),
        (5, "100.0", ", from size and time)"),
    ],
)
@pytest.mark.parametrize("half", [0, 4])
def test_impossible_cell_is_quoted(place: int, text: str, words: str, half: int) -> None:
    lines = output("all_reduce", (1, 2 * SHARE)).split("\n")
    cells = lines[-3].split()
    cells[place + half] = text
    run = one("\n".join([*lines[:-3], " ".join(cells), *lines[-2:]]))
    assert run["outcome"] in {"contradictory", "truncated"}
    assert words in run["contradictions"][0]
    assert run["contradictions"][0].startswith(f"line {len(lines) - 2}: ")


@pytest.mark.parametrize(
    ("kind", "error", "outcome"),
    [
        # DeltaMaxValue x 7, printed with one digit: 7e-05 can be 7.4e-05.
        ("float", "7e-05", "ok"),
        ("float", "2e-04", "contradictory"),
        ("float", "4.7e+02", "contradictory"),
        ("half", "7e-02", "ok"),
        ("half", "2e-01", "contradictory"),
        ("double", "7e-12", "ok"),
        ("double", "2e-07", "contradictory"),
        ("int32", "0e+00", "ok"),
        ("int32", "1e+00", "contradictory"),
        ("float", "nan", "contradictory"),
    ],
)
def test_error_above_the_tolerance_of_its_type_is_not_ok(kind: str, error: str, outcome: str) -> None:
    text = output("all_reduce", (1, 2 * SHARE), new=False).replace(" float ", f" {kind} ").replace("2e-07", "0e+00")
    run = one(text[::-1].replace("0e+00"[::-1], error[::-1], 1)[::-1])
    assert run["outcome"] == outcome, run["contradictions"]


@pytest.mark.parametrize(("program", "factor"), [("alltoall", SHARE), ("sendrecv", 1.0), ("", SHARE)])
def test_in_place_error_of_old_exchange_programs_is_ignored(program: str, factor: float) -> None:
    text = output(program, (1, factor), new=False).replace(" redop", "").replace(" sum", "")
    assert one(re.sub(r"2e-07$", "3e+00", text, flags=re.MULTILINE))["outcome"] == "ok"
    assert one(re.sub(r"2e-07 ", "3e+00 ", text))["outcome"] == "contradictory"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("values : 0 OK", "values : nan OK", "invalid footer"),
        ("values : 0 OK", "values : -1 OK", "invalid footer"),
        ("values : 0 OK", "values : 0", "invalid footer"),
        ("bandwidth    : ", "bandwidth    : -", "invalid footer"),
        ("bandwidth    : ", "bandwidth    : nan ", "invalid footer"),
        ("\n1048576 ", "\n2097152 ", ", from size and time)"),
        ("\n1048576 ", "\n1048599 ", "size 1048599 B is not part of 8 B to 8589934592 B with factor 2"),
    ],
)
def test_impossible_footer_or_size_is_reported(old: str, new: str, words: str) -> None:
    run = one(output("all_reduce", (1, 2 * SHARE)).replace(old, new))
    assert run["outcome"] in {"contradictory", "truncated"}
    assert any(words in said for said in run["contradictions"]), run["contradictions"]


@pytest.mark.parametrize(
    ("text", "unit"), [("13.67", 0.005), ("586.4", 0.05), ("13552", 0.5), ("2.0e+07", 5e5), ("1e+06", 5e5)]
)
def test_printed_number_is_exact_to_half_a_unit_of_its_last_digit(text: str, unit: float) -> None:
    assert half_unit(text) == pytest.approx(unit)
    assert half_unit("1e99999999999999999999") == float("inf")


def test_contradictions_in_part_of_an_output_have_no_line_numbers() -> None:
    text = output("all_reduce", (1, 2 * SHARE), share=0.01).replace(" : 0 OK", " : nan OK")
    (run,) = parse_text(text, numbered=False)["runs"]
    assert run["contradictions"]
    assert not any("line " in said for said in run["contradictions"])


HEAD = "# nThread 1 nGpus 1 minBytes {least} maxBytes {most} step: 2(factor) warmup iters: 5 iters: 20"
REDUCED = "# Reducing maxBytes to {} due to memory limitation"
RANK = "#  Rank  0 Group  0 Pid 1 on gpu1 device  0 [0000:01:00] NVIDIA H100"
ROW = "{0} {1} float sum -1 12.00 {2} {3} 0 12.00 {2} {3} N/A"


def test_size_reduced_by_nccl_tests_is_not_a_contradiction() -> None:
    """common.cu lowers maxBytes to a part of the GPU memory, possibly below minBytes, and measures no size then."""
    head = [HEAD.format(least=1 << 36, most=1 << 36), RANK, "#", REDUCED.format(1 << 23), f"# {NEW}"]
    footer = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 0"]
    run = one("\n".join([*head, ROW.format(1 << 23, 1 << 21, "699.05", "0.00"), *footer]))
    assert (run["outcome"], run["contradictions"]) == ("ok", [])
    run = one("\n".join([*head, *footer]))
    assert run["outcome"] == "truncated"
    assert any("reduced maxBytes to 8388608 B to fit the GPU memory" in error for error in run["errors"])


def test_sendrecv_with_one_rank_is_consistent() -> None:
    head = ["# Collective test starting: sendrecv_perf", HEAD.format(least=1 << 23, most=1 << 23), RANK, f"# {NEW}"]
    footer = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 699.05"]
    run = one("\n".join([*head, ROW.format(1 << 23, 1 << 21, "699.05", "699.05"), *footer]))
    assert (run["outcome"], run["ranks"], run["contradictions"]) == ("ok", 1, [])
