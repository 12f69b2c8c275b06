"""Tests of stage soak: parsing, verdict and report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import input_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import budget, next_step
from report_samples import EVIL, nccl_text
from stage_samples import gemm_line, stage_pages, stage_report, stage_test
from validation_samples import validation_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NODES = ["gpu1", "gpu2"]
OWN = {
    "script": "#!/bin/bash\n",
    "minutes": "10",
    "gemm_seconds": "30",
    "interval": "30",
    "bytes": "16G",
    "iterations": "100",
    "spread": "10",
    "decay": "5",
    "kernel_log": "true",
}
TURNS = 10
BEGAN = 1_800_000_000.0
# Busbw of 16 GPUs on two nodes at the largest size.
BUSBW = 365.0


def watch_line(when: str, node: str, at: float, *, faults: Any = (), **changes: Any) -> str:  # noqa: ANN401 - of GPU 3
    """Return the status line of a node, with these changes to its GPU 3."""
    devices = []
    for device in range(8):
        found: dict[str, Any] = {
            "device": device,
            "clock_mhz": 1755,
            "power_w": 690.5,
            "temperature_c": 64,
            "reasons": ["sw_power_cap"],
            "lost": False,
        }
        if when != "sample":
            found |= {
                "uuid": f"GPU-{node}-{device}",
                "address": f"00000000:{device + 16:02X}:00.0",
                "ecc_volatile_uncorrected_total": 0,
                "ecc_volatile_corrected_total": 2,
                "pcie_replays": 0,
                "nvlink_errors": 0,
                "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
                "throttle_us": {"hw_therm_slowdown": 0},
            }
        devices.append(found | (changes if device == 3 else {}))
    told = {"when": when, "node": node, "at": at, "devices": devices, "kernel_log": True}
    return f"busbar-soak {json.dumps(told | ({'faults': list(faults)} if when == 'end' else {}))}\n"


def output(  # noqa: PLR0913 - one parameter per fault
    *,
    products: Callable[[int, str, int], dict[str, Any]] = lambda _turn, _node, _device: {},
    busbw: Callable[[int], float] = lambda _turn: BUSBW,
    samples: dict[str, Any] | None = None,
    end: dict[str, Any] | None = None,
    faults: tuple[str, ...] = (),
    silent: str = "",
) -> str:
    """Return the output of a complete soak, with changes to GPU 3 of gpu2 and no status from the silent node."""
    parts = ["# busbar: Kernel=Linux\n"]
    told = [node for node in NODES if node != silent]
    at = BEGAN
    parts += [watch_line("begin", node, at) for node in told]
    for turn in range(1, TURNS + 1):
        parts.append(f"\n# busbar soak: gemm {turn} {at:.6f}\n")
        parts += [
            gemm_line(node, gpu, **({"tflops": 700.0} | products(turn, node, gpu)))
            for node in NODES
            for gpu in range(8)
        ]
        parts.append(f"\n# busbar soak: end gemm {turn} {at + 30:.6f} 0\n")
        parts += [watch_line("sample", node, at + 29, **((samples or {}) if node == "gpu2" else {})) for node in told]
        parts.append(f"\n# busbar soak: all_reduce {turn} {at + 30:.6f}\n{nccl_text(NODES, 8, busbw(turn))}")
        parts.append(f"\n# busbar soak: end all_reduce {turn} {at + 60:.6f} 0\n")
        parts += [watch_line("sample", node, at + 59, **((samples or {}) if node == "gpu2" else {})) for node in told]
        at += 60
    for node in told:
        parts.append(
            watch_line(
                "end", node, at, faults=faults if node == "gpu2" else (), **((end or {}) if node == "gpu2" else {})
            )
        )
    return "".join([*parts, f"\n# busbar soak: done {TURNS} {at:.6f}\n"])


def judged(text: str, options: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the test of the stage in a report."""
    return stage_test("soak", OWN | (options or {}), NODES, text)


def test_job_requests_all_gpus_for_the_full_duration() -> None:
    asked = validation_options(NODES, stages=["soak"], soak=OWN)
    step = next_step(asked)
    assert step["time_limit"] == 10 * 60 + 600
    job = step["tests"][0]["job"]
    assert job["arguments"] == ["--ntasks-per-node=8", "--export=ALL", "--gpus-per-node=8"]
    assert "export BUSBAR_RANKS_PER_NODE=8\nexport BUSBAR_SOAK_SECONDS=600\n" in job["script"]
    assert "soak: all nodes for 10 min, at most 1200 s" in budget(asked)


@pytest.mark.parametrize(
    ("own", "changes", "words"),
    [
        ({"minutes": "120"}, {}, "validation_time_limit: 7200 is less than the 7800 s that the stage soak may take"),
        ({"bytes": "much"}, {}, "validation_soak_bytes: 'much' is not a valid size"),
        ({"interval": "301"}, {}, "validation_soak_interval: 301 s is more than half of validation_soak_minutes (10)"),
        ({"minutes": "0"}, {}, "validation_soak_minutes: '0' is not a number, 0.1 or more"),
    ],
)
def test_inconsistent_options_are_refused(own: dict[str, str], changes: dict[str, Any], words: str) -> None:
    (problem,) = input_problems(validation_options(NODES, stages=["soak"], soak=OWN | own, **changes))
    assert problem.startswith(words)
    assert input_problems(validation_options(NODES, stages=["soak"], soak=OWN | {"minutes": "120"}, time_limit=0)) == []


def test_constant_performance_passes() -> None:
    test = judged(output())
    assert (test["verdict"], test["blamed"], test["findings"]) == ("PASS", [], [])
    assert test["reason"].startswith("16 GPU(s) sustained the load for 10 min: busbw 365")
    assert (test["soak"]["turns"], len(test["soak"]["rows"])) == (TURNS, 16)


def test_nonfatal_nvlink_error_is_a_finding() -> None:
    line = "kernel: NVRM: Xid (PCI:0000:13:00): 145, RLW_RXPIPE  Nonfatal   XC0 i0 Link 13 (0x0409a0c2 0x00000008)"
    test = judged(output(faults=(line,)))
    assert test["verdict"] == "PASS"
    assert any("gpu2 GPU 3: Xid 145 (nonfatal)" in finding for finding in test["findings"]), test["findings"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"faults": ("2026-11-20T00:00:01 gpu2 kernel: NVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off",)},
            "gpu2: GPU 3: Xid 79",
        ),
        (
            {"faults": ("kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",)},
            "gpu2: NVSwitch at 0000:05:00.0: fatal SXid 20034",
        ),
        (
            {"faults": ("kernel: NVRM: Xid (PCI:0000:13:00 GPU-I:05): 95, Uncontained: LTC TAG. RST: Yes, D-RST: No",)},
            "gpu2: GPU 3 GPU-I:05: Xid 95",
        ),
        (
            {"faults": ("kernel: NVRM: Xid of a new driver, GPU 3",)},
            "gpu2: an Xid in a format that cannot be parsed: Xid of a new driver, GPU 3",
        ),
        ({"end": {"ecc_volatile_uncorrected_total": 1}}, "gpu2: GPU 3 (GPU-gpu2-3): 1 uncorrectable memory errors"),
        (
            {"end": {"remapped_rows": {"uncorrectable": 1}}},
            "gpu2: GPU 3 (GPU-gpu2-3): a memory row was remapped after an uncorrectable error",
        ),
        ({"end": {"remapped_rows": {"failure": True}}}, "gpu2: GPU 3 (GPU-gpu2-3): a memory row could not be"),
        ({"samples": {"lost": True}}, "gpu2: GPU 3 is lost"),
        (
            {"products": lambda turn, node, gpu: {"digest": "ab"} if (turn, node, gpu) == (7, "gpu2", 3) else {}},
            "gpu2: GPU 3: the same product had different results in 1 of 9000 batches: silent data corruption",
        ),
        (
            {"products": lambda _turn, node, gpu: {"tflops": 600.0} if (node, gpu) == ("gpu2", 3) else {}},
            "gpu2: GPU 3: 600 TFLOP/s, 14% below the median of 16 identical devices",
        ),
        (
            {"products": lambda turn, node, gpu: {"tflops": 655.0} if (turn, node, gpu) == (10, "gpu2", 3) else {}},
            "gpu2: GPU 3: fell by 6%: 700 TFLOP/s in the first iterations, 655 in the last",
        ),
    ],
)
def test_fault_under_load_is_reported_with_node_and_gpu(changes: dict[str, Any], words: str) -> None:
    test = judged(output(**changes))
    assert test["verdict"] == "FAIL"
    assert test["reason"].startswith(words)
    assert [item["node"] for item in test["blamed"]] == ["gpu2"]


def test_decaying_all_reduce_fails_by_the_limit_and_blames_no_node() -> None:
    slower = output(busbw=lambda turn: BUSBW * (0.9 if turn == TURNS else 1))
    test = judged(slower)
    assert (test["verdict"], test["blamed"]) == ("FAIL", [])
    assert test["reason"].startswith("the all-reduce fell by 10%: 365")
    assert judged(slower, {"decay": "15"})["verdict"] == "PASS"


def test_throttling_and_small_counter_increases_are_findings() -> None:
    text = output(
        samples={"reasons": ["hw_slowdown", "hw_power_brake_slowdown"]},
        end={"throttle_us": {"hw_therm_slowdown": 2_500_000}, "pcie_replays": 4, "ecc_volatile_corrected_total": 5},
    )
    test = judged(text)
    assert test["verdict"] == "PASS"
    assert test["findings"] == [
        "gpu2 GPU 3 (GPU-gpu2-3): 3 correctable ECC errors during the soak",
        "gpu2 GPU 3 (GPU-gpu2-3): 4 PCIe replays during the soak",
        "gpu2 GPU 3: throttled by the hardware, in 20 of 21 samples",
        "gpu2 GPU 3: throttled by the hardware because of its temperature, 2.5 s",
        "gpu2 GPU 3: throttled by the power brake of the server, in 20 of 21 samples",
    ]


WHOLE = output()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the output is truncated"),
        (WHOLE[: WHOLE.index("# busbar soak: end all_reduce 10")], "the output is truncated"),
        (output(silent="gpu1"), "gpu1: reported nothing"),
        (WHOLE.replace('{"when": "end", "node": "gpu1"', '{"when": "en'), "gpu1: did not report the end of the soak"),
        (
            "".join(line for line in WHOLE.splitlines(keepends=True) if '"sample", "node": "gpu2"' not in line),
            "gpu2: 0 samples (expected about 20); the longest gap is 600 s",
        ),
        (WHOLE.replace('"kernel_log": true', '"kernel_log": false'), "gpu1: the kernel log could not be read"),
        (WHOLE.replace("end gemm 9 ", "end gemm 8 "), "gemm of iteration 9 did not finish"),
        (
            WHOLE.replace(gemm_line("gpu2", 7, tflops=700.0), "busbar_gemm: gpu2: torch sees no GPU\n"),
            "gpu2: gemm of iteration 1: torch sees no GPU",
        ),
        (
            WHOLE.replace("# Out of bounds values : 0 OK", ""),
            "all_reduce of iteration 1: the output is incomplete",
        ),
    ],
)
def test_missing_values_are_inconclusive(text: str, words: str) -> None:
    test = judged(text)
    assert (test["verdict"], test["blamed"]) == ("INCONCLUSIVE", [])
    assert test["reason"].startswith(words), test["reason"]


def test_kernel_log_can_be_disabled() -> None:
    assert (
        judged(WHOLE.replace('"kernel_log": true', '"kernel_log": false'), {"kernel_log": "false"})["verdict"] == "PASS"
    )


def test_damaged_line_is_inconclusive() -> None:
    lines = WHOLE.splitlines(keepends=True)
    for number in range(0, len(lines), 47):
        cut = "".join([*lines[:number], lines[number][: len(lines[number]) // 2] + "\n"])
        assert judged(cut)["verdict"] == "INCONCLUSIVE", number


def test_page_and_metrics_show_the_soak(tmp_path: Path) -> None:
    text = output(end={"uuid": EVIL, "ecc_volatile_uncorrected_total": 1})
    section, told = stage_pages(tmp_path, stage_report("soak", OWN, NODES, text))
    assert section.count('class="plot"') == 3
    for words in ("All-reduce", "Clocks", "Temperature", "Median clock, MHz", "Throttling"):
        assert words in section
    assert EVIL not in section
    assert [sample.labels["turn"] for sample in told["busbar_soak_busbw_bytes_per_second"]] == ["first", "last"]
    wrong = [sample.labels for sample in told["busbar_soak_uncorrectable_errors"] if sample.value]
    assert wrong == [{"cluster": "alpha", "node": "gpu2", "device": "3"}]
