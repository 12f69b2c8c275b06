"""Tests of stage gemm: parsing, verdict and report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import next_step
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.programs.gemm_results import (
    known_floor,
)
from report_samples import EVIL
from stage_samples import gemm_lines, stage_pages, stage_report, stage_test
from validation_samples import validation_options

ROOT = Path(__file__).parents[7]
PROGRAM = ROOT / "roles/validation/files/busbar_gemm.py"
NODES = ["gpu1", "gpu2"]
OWN = {
    "script": "#!/bin/bash\n",
    "seconds": "30",
    "size": "0",
    "spread": "10",
    "tflops": "0",
    "memory_gbs": "0",
    "wrong_node": "",
    "python": "python3",
    "image": "",
}


def output(changes: dict[tuple[str, int], dict[str, Any]] | None = None, leave: tuple[str, int] | None = None) -> str:
    """Return the output of all ranks, with some changed and one left out."""
    return gemm_lines(NODES, changes, leave)


def judged(text: str, options: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    """Return the test of the stage in a report."""
    return stage_test("gemm", OWN | (options or {}), NODES, text, **changes)


def test_job_requests_all_gpus_of_all_nodes() -> None:
    job = next_step(validation_options(NODES, stages=["gemm"], gemm=OWN))["tests"][0]["job"]
    assert job["nodes"] == NODES
    assert job["arguments"] == ["--ntasks-per-node=8", "--export=ALL", "--gpus-per-node=8"]


def test_fast_and_equal_results_pass() -> None:
    test = judged(output())
    assert (test["verdict"], test["blamed"]) == ("PASS", [])
    assert test["reason"] == (
        "16 GPU(s): 700 to 707 TFLOP/s in bf16, memory 2900 to 2900 GB/s, the same results on identical devices"
    )
    assert test["gemm"]["tflops_floor"] == pytest.approx(0.55 * 989.4)
    assert "published figure" in test["source"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tflops": 500.0}, "gpu2 GPU 3: 500 TFLOP/s, floor 544.2"),
        ({"tflops": 620.0}, "gpu2 GPU 3: 620 TFLOP/s, 12% below the median of 16 identical devices"),
        ({"memory_gbs": 2000.0}, "gpu2 GPU 3: 2000 GB/s of memory, floor 2345"),
        ({"memory_gbs": 2500.0}, "gpu2 GPU 3: 2500 GB/s of memory, 14% below the median of 16 identical devices"),
        ({"digest": "ab"}, "gpu2 GPU 3: its result differs from that of 15 identical devices: silent data corruption"),
        ({"changed": 2}, "gpu2 GPU 3: the same product had different results in 2 of 900 batches: silent data corrup"),
        ({"copies_changed": 1}, "gpu2 GPU 3: 1 copies in memory differ from their source"),
    ],
)
def test_faulty_gpu_is_found_and_its_node_blamed(changes: dict[str, Any], words: str) -> None:
    test = judged(output({("gpu2", 3): changes}))
    assert test["verdict"] == "FAIL"
    assert test["reason"].startswith(words)
    assert [item["node"] for item in test["blamed"]] == ["gpu2"]


def test_other_gpu_model_or_library_may_give_another_result() -> None:
    other = {("gpu2", device): {"digest": "bb", "library": "torch 2.8.0+cu126"} for device in range(8)}
    assert judged(output(other))["verdict"] == "PASS"
    other = {("gpu2", device): {"digest": "bb", "kind": "NVIDIA H100 PCIe, 114 SMs"} for device in range(8)}
    assert judged(output(other))["verdict"] == "PASS"


def test_equally_frequent_results_fail_and_blame_no_node() -> None:
    test = judged(output({("gpu2", device): {"digest": "bb"} for device in range(8)}))
    assert (test["verdict"], test["blamed"]) == ("FAIL", [])
    assert test["reason"].startswith("gpu[1-2]: 2 different results of identical devices, without a majority")


def test_straggler_needs_more_than_three_gpus() -> None:
    slow = {(node, device): {"kind": "other"} for node in NODES for device in range(8) if (node, device) > ("gpu1", 2)}
    assert judged(output({**slow, ("gpu1", 1): {"tflops": 600.0}}))["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "gpu1: 0 of 8 rank(s) reported results"),
        (output(leave=("gpu2", 0)), "gpu2: 7 of 8 rank(s) reported results"),
        (output({("gpu2", 0): {"tflops": None}}), "gpu2: 7 of 8 rank(s)"),
        (output({("gpu2", 0): {"tflops": -1}}), "gpu2: 7 of 8 rank(s)"),
        (output({("gpu2", 0): {"digest": ""}}), "gpu2: 7 of 8 rank(s)"),
        (output({("gpu2", 0): {"what": "cpu"}}), "gpu2: 7 of 8 rank(s)"),
        (output().replace("busbar-gemm {", "busbar-gemm [{"), "gpu1: 0 of 8 rank(s)"),
        (
            output(leave=("gpu1", 0)) + "busbar_gemm: gpu1: no torch: No module named 'torch'\n",
            "gpu1: no torch: No module named 'torch' (validation_gemm_image, or the nodes' packages)",
        ),
    ],
)
def test_rank_without_output_is_inconclusive(text: str, words: str) -> None:
    test = judged(text)
    assert (test["verdict"], test["blamed"]) == ("INCONCLUSIVE", [])
    assert test["reason"].startswith(words)


def test_wrong_result_fails_even_if_other_ranks_gave_no_output() -> None:
    test = judged(output({("gpu2", 3): {"digest": "ab"}}, leave=("gpu1", 0)))
    assert (test["verdict"], test["blamed"][0]["node"]) == ("FAIL", "gpu2")
    assert test["findings"] == ["gpu1: 7 of 8 rank(s) reported results"]


def test_missing_floor_is_inconclusive_and_can_be_set_by_option() -> None:
    hardware = dict.fromkeys(NODES, "rtx_4080x2_desktop")
    test = judged(output(), hardware=hardware)
    assert test["verdict"] == "INCONCLUSIVE"
    assert test["reason"].endswith("no floor is known: set gemm in the hardware profile, or validation_gemm_tflops")
    assert "validation_gemm_memory_gbs" in judged(output(), {"tflops": "1"}, hardware=hardware)["reason"]
    test = judged(output(), {"tflops": "1", "memory_gbs": "1"}, hardware=hardware)
    assert (test["verdict"], test["source"]) == ("PASS", "the operator")
    assert judged(output(), {"tflops": "800"})["verdict"] == "FAIL"


def test_floors_of_a_profile_are_shares_of_its_peaks() -> None:
    found = known_floor(site_catalogue({})["dgx_h200"])
    assert [found.tflops, found.memory_gbs] == pytest.approx([544.17, 3360])
    assert known_floor(site_catalogue({})["sandbox_gpu"]).tflops is None
    found = known_floor(site_catalogue({})["dgx_a100"])
    assert [found.tflops, found.memory_gbs] == pytest.approx([187.2, 1088.5])
    assert (known_floor(site_catalogue({})["dgx_b200"]).tflops or 0) < 1745


@pytest.mark.parametrize(
    ("name", "published", "copied"),
    [
        *((name, 83, 766) for name in ("c4140_v100", "dgx1", "dgx2")),
        ("l40s", 269, 864 * 0.78),
        ("rtx_4090", 160.5, 912),
        # At least as fast as a B200, which the published values are from.
        *((name, 1745, 8000 * 0.9) for name in ("gb200_nvl72", "gb300")),
    ],
)
def test_published_values_are_well_above_the_floor(name: str, published: float, copied: float) -> None:
    found = known_floor(site_catalogue({})[name])
    assert 0.6 * published < (found.tflops or 0) < 0.71 * published
    assert 0.7 * copied < (found.memory_gbs or 0) < 0.81 * copied


def test_page_and_metrics_show_each_gpu(tmp_path: Path) -> None:
    text = output({("gpu2", 3): {"digest": "ab", "uuid": EVIL}})
    section, told = stage_pages(tmp_path, stage_report("gemm", OWN, NODES, text))
    for words in ("Slowest of each node", "Share of median, %", "8192 x 8192, bf16", "544.2 TFLOP/s", ">wrong<"):
        assert words in section
    assert EVIL not in section
    assert len(told["busbar_gemm_tflops"]) == 16
    wrong = [sample.labels for sample in told["busbar_gemm_wrong"] if sample.value]
    assert wrong == [{"cluster": "alpha", "node": "gpu2", "device": "3"}]
    assert {sample.value for sample in told["busbar_gemm_memory_bytes_per_second"]} == {2.9e12}


@pytest.mark.parametrize(
    ("device", "words"), [("gpu", "no torch: "), ("cpu", "needs torch or NumPy: ")], ids=["gpu", "cpu"]
)
def test_missing_torch_and_numpy_are_reported(tmp_path: Path, device: str, words: str) -> None:
    for name in ("torch", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('none here')\n")
    done = subprocess.run(
        [sys.executable, PROGRAM, "--device", device],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "SLURMD_NODENAME": "gpu1"},
    )
    assert (done.returncode, done.stdout) == (3, f"busbar_gemm: gpu1: {words}none here\n"), done.stderr
