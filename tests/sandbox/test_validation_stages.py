"""Tests of the stages gemm, hpl and soak on the CPUs of a running cluster, and of the signed reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from busbar.cli import main
from conftest import as_json

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = pytest.mark.proves("validation")

# Timeout for a busy machine; an idle one needs a twentieth.
SLOW = 400.0
SMALL = {"validation_gemm_seconds": 1, "__validation_gemm_size": 64, "validation_hpl_n": 400}
# So low that, even on a busy machine, only a program that does not run misses them.
FLOORS = {"validation_gemm_tflops": 1e-9, "validation_gemm_memory_gbs": 1e-6, "validation_hpl_gflops": 1e-6}


def validate(sandbox: Cluster, stages: list[str], **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Run stages and return the report."""
    sandbox.wait_idle(SLOW)
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    asked = {**SMALL, **FLOORS, "validation_stages": stages, **options}
    done = sandbox.playbook("validate.yml", "-e", json.dumps(asked), timeout=2 * SLOW)
    assert latest.resolve() != before, done.stdout + done.stderr
    page = (latest / "report.html").read_text(encoding="utf-8")
    assert all(f'id="stage-{stage}"' in page for stage in stages)
    report = as_json((latest / "report.json").read_text(encoding="utf-8"))
    assert (done.returncode == 0) == (report["verdict"] == "PASS"), done.stdout
    return dict(report)


def test_gemm_and_hpl_pass_and_the_report_is_signed(sandbox: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    report = validate(sandbox, ["gemm", "hpl"], __validation_mpi_ranks_per_node=2)
    gemm, hpl = report["tests"]
    assert [(test["name"], test["verdict"]) for test in (gemm, hpl)] == [("gemm", "PASS"), ("hpl", "PASS")], report
    rows = gemm["gemm"]["rows"]
    assert sorted((row["node"], row["device"]) for row in rows) == [
        (node, device) for node in sorted(sandbox.compute) for device in (0, 1)
    ]
    assert all(row["tflops"] > 0 and row["memory_gbs"] > 0 and not row["wrong"] for row in rows)
    (solved,) = hpl["hpl"]["rows"]
    assert (solved["n"], solved["p"] * solved["q"], solved["passed"]) == (400, 2 * len(sandbox.compute), True)
    folder = sandbox.state / "reports" / "latest"
    assert main(["report", "sign", str(folder), "-i", str(sandbox.inventory)]) == 0
    assert main(["report", "verify", str(folder), "-i", str(sandbox.inventory)]) == 0
    assert f"all {len(list(folder.glob('*.out'))) + 1} files are unchanged" in capsys.readouterr().out
    with (folder / "gemm.out").open("a", encoding="utf-8") as file:
        file.write("one line more\n")
    assert main(["report", "verify", str(folder), "-i", str(sandbox.inventory)]) == 1


def test_single_wrong_bit_is_found(sandbox: Cluster) -> None:
    wrong = sandbox.compute[-1]
    (test,) = validate(sandbox, ["gemm"], __validation_gemm_wrong_node=wrong)["tests"]
    assert test["verdict"] == "FAIL", test["reason"]
    others = len(sandbox.compute) - 1
    if others > 1:
        assert [item["node"] for item in test["blamed"]] == [wrong]
    else:
        # With only two results, the wrong one cannot be determined.
        assert test["blamed"] == []
        assert "2 different results of identical devices" in test["reason"]


def test_unreachable_floor_fails_all_nodes(sandbox: Cluster) -> None:
    high = {"validation_gemm_tflops": 1000, "validation_hpl_gflops": 1e9}
    report = validate(sandbox, ["gemm"], **high)
    (test,) = report["tests"]
    assert (test["verdict"], {item["node"] for item in test["blamed"]}) == ("FAIL", set(sandbox.compute))
    assert ", floor 1000" in test["reason"]
    (test,) = validate(sandbox, ["hpl"], **high)["tests"]
    assert (test["verdict"], "floor 1e+09 per rank" in test["reason"]) == ("FAIL", True), test["reason"]


# Rounds of some seconds each, so that a minute and a half has enough of them to compare on a busy machine.
SOAK = {
    "validation_soak_minutes": 1.5,
    "__validation_soak_gemm_seconds": 1,
    "validation_soak_interval": 3,
    "validation_soak_bytes": "1M",
    "__validation_soak_iterations": 3,
}


def test_nodes_pass_a_soak_and_are_monitored(sandbox: Cluster) -> None:
    (test,) = validate(sandbox, ["soak"], **SOAK)["tests"]
    assert test["verdict"] == "PASS", test
    assert "sustained the load for 1.5 min" in test["reason"]
    soak = test["soak"]
    assert soak["turns"] >= 4
    assert len(soak["busbw"]) == soak["turns"]
    assert len(soak["watched"]) >= 4
    assert {row["node"] for row in soak["rows"]} == set(sandbox.compute)
    page = (sandbox.state / "reports" / "latest" / "report.html").read_text(encoding="utf-8")
    assert "GB/s at first" in page


def test_wrong_sum_ends_the_soak_and_fails(sandbox: Cluster) -> None:
    (test,) = validate(sandbox, ["soak"], **SOAK, __validation_mpi_wrong_rank=0)["tests"]
    assert (test["verdict"], "the sums are wrong" in test["reason"]) == ("FAIL", True), test["reason"]
    assert any("the soak lasted" in words for words in test["findings"]), test["findings"]


def test_soak_that_does_not_fit_is_refused_before_it_starts(sandbox: Cluster) -> None:
    asked = {**SOAK, "validation_stages": ["soak"], "validation_time_limit": 600}
    done = sandbox.playbook("validate.yml", "-e", json.dumps(asked), timeout=SLOW)
    assert done.returncode != 0
    assert "validation_time_limit: 600 is less than the 690 s that the stage soak may take" in done.stdout
