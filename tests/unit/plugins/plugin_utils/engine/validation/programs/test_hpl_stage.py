"""Tests of stage hpl: parsing, verdict and report."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import next_step
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.hpl import read_hpl
from stage_samples import stage_test
from validation_samples import validation_options

# hpccoutf.txt of Debian's hpcc 1.5.0-3 with one rank.
RECORDED = """\
--------------------------------------------------------------------------------

- The matrix A is randomly generated for each test.
- The following scaled residual check will be computed:
      ||Ax-b||_oo / ( eps * ( || x ||_oo * || A ||_oo + || b ||_oo ) * N )
- The relative machine precision (eps) is taken to be               1.110223e-16
- Computational tests pass if scaled residuals are less than                16.0

================================================================================
T/V                N    NB     P     Q               Time                 Gflops
--------------------------------------------------------------------------------
WR11C2R4         200    80     1     1               0.00              1.513e+00
--------------------------------------------------------------------------------
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)=        0.0102079 ...... PASSED
================================================================================

Finished      1 tests with the following results:
              1 tests completed and passed residual checks,
"""
# 64 ranks, from https://scc25-benchmarking.readthedocs.io/en/latest/benchmarks/hpl.html.
PUBLISHED = """\
WR01C2L8 102144 192 8 8 514.92 1.380e+03
||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= 0.0020152 ...... PASSED
"""
NODES = [f"gpu{number}" for number in range(1, 9)]
OWN: dict[str, Any] = {
    "script": "#!/bin/bash\n",
    "n": "0",
    "nb": "0",
    "gflops": "20",
    "program": "/workspace/hpl.sh",
    "arguments": ["--dat", "HPL.dat"],
    "image": "",
}


def judged(text: str, nodes: list[str], **own: Any) -> dict[str, Any]:  # noqa: ANN401 - any option of the stage
    """Return the test of the stage in a report."""
    return stage_test("hpl", OWN | own, nodes, text)


def test_recorded_output_is_parsed() -> None:
    (found,) = read_hpl(RECORDED)
    assert found == {
        "variant": "WR11C2R4",
        "n": 200,
        "nb": 80,
        "p": 1,
        "q": 1,
        "seconds": 0.0,
        "gflops": 1.513,
        "residual": "0.0102079",
        "passed": True,
    }
    (found,) = read_hpl(PUBLISHED.replace("1.380e+03", "1.380e+03 ( 2.156e+01)"))
    assert (found["n"], found["p"], found["gflops"], found["passed"]) == (102144, 8, 1380.0, True)


def test_matrix_fills_the_gpu_memory() -> None:
    job = next_step(validation_options(NODES, stages=["hpl"], hpl=OWN))["tests"][0]["job"]
    lines = [line.removeprefix("export ") for line in job["script"].splitlines() if line.startswith("export ")]
    exported = dict(line.split("=") for line in lines)
    assert (exported["BUSBAR_RANKS_PER_NODE"], exported["BUSBAR_HPL_NB"]) == ("8", "1024")
    assert int(exported["BUSBAR_HPL_N_EACH"]) ** 2 * 8 == pytest.approx(0.8 * 8 * 81559 * (1 << 20), rel=1e-4)
    assert job["arguments"][2] == "--gpus-per-node=8"


def test_correct_and_fast_result_passes() -> None:
    test = judged(PUBLISHED, NODES)
    assert test["verdict"] == "PASS"
    assert test["reason"] == "n 102144: 1380 Gflop/s, 21.56 per rank, residual 0.0020152 passed"


@pytest.mark.parametrize(
    ("old", "new", "verdict", "words"),
    [
        ("PASSED", "FAILED", "FAIL", "n 102144: the solution is wrong, scaled residual 0.0020152"),
        ("0.0020152 ...... PASSED", "nan ...... FAILED", "FAIL", "the solution is wrong, scaled residual nan"),
        ("||Ax-b||", "--", "INCONCLUSIVE", "the solution was not checked"),
        (" 8 8 ", " 8 7 ", "INCONCLUSIVE", "56 rank(s) in 8 x 7 took part (expected 64)"),
        ("1.380e+03", "1.380e+04", "INCONCLUSIVE", "the rate of 13800 Gflop/s contradicts 514.92 s"),
        ("514.92", "51.492", "INCONCLUSIVE", "the rate of 1380 Gflop/s contradicts 51.492 s"),
        ("514.92 1.380e+03", "590.00 1.204e+03", "FAIL", "18.81 per rank, residual 0.0020152 passed, floor 20 per"),
        ("1.380e+03", "nan", "INCONCLUSIVE", "no system was solved"),
        ("WR01", "XR01", "INCONCLUSIVE", "no system was solved"),
    ],
)
def test_a_missing_result_is_not_a_pass(old: str, new: str, verdict: str, words: str) -> None:
    assert old in PUBLISHED
    test = judged(PUBLISHED.replace(old, new, 1), NODES)
    assert (test["verdict"], words in test["reason"]) == (verdict, True), test["reason"]
    assert test["blamed"] == []


def test_one_wrong_solution_fails_the_test() -> None:
    assert judged(PUBLISHED.replace("PASSED", "FAILED") + PUBLISHED, NODES)["verdict"] == "FAIL"


def test_single_node_is_blamed() -> None:
    text = PUBLISHED.replace(" 8 8 ", " 4 2 ").replace("PASSED", "FAILED")
    assert judged(text, ["gpu1"])["blamed"][0]["node"] == "gpu1"
