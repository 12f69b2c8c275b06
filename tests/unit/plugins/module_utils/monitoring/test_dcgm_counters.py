"""What is read of each GPU, by its kind and by what a site wants; and the exporter that tests replay."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.monitoring.dcgm_counters import (
    DEVICE_COUNTERS,
    KINDS,
    KNOWN,
    PROFILING_COUNTERS,
    counter_lines,
    counter_problems,
    counters_of,
    has_profiling,
)

PROGRAM = Path(__file__).parents[4] / "fixtures/dcgm/dcgm-exporter"
H100, RTX, P100 = ({"model": f"NVIDIA {name}"} for name in ("H100 80GB HBM3", "GeForce RTX 4090", "P100"))
XID = {"name": "DCGM_FI_DEV_XID_ERRORS", "type": "gauge", "help": "last Xid"}


def names(gpu: dict[str, Any], profiling: str = "auto", *extra: dict[str, Any]) -> list[str]:
    return [counter.name for counter in counters_of(gpu, profiling, [], extra)]


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA GB200", True),
        ("Tesla V100-SXM2-32GB", True),
        ("NVIDIA L40S", True),
        ("NVIDIA GeForce RTX 4090", False),
        ("NVIDIA RTX A6000", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", False),
        ("Tesla P100-PCIE-16GB", False),
        ("Simulated GPU", False),
    ],
)
def test_profiling_goes_by_the_gpu(model: str, wanted: bool) -> None:  # noqa: FBT001 - a column of the table
    assert has_profiling({"model": model}) is wanted


def test_a_profile_may_name_the_generation() -> None:
    assert has_profiling({"model": "NVIDIA X9000", "generation": "hopper"})


def test_profiling_can_be_left_out_for_those_who_profile_themselves() -> None:
    assert "DCGM_FI_PROF_SM_ACTIVE" in names(H100)
    assert "DCGM_FI_PROF_SM_ACTIVE" not in names(H100, "never")
    assert "DCGM_FI_PROF_SM_ACTIVE" not in names(RTX)
    assert "DCGM_FI_PROF_SM_ACTIVE" in names(RTX, "always")


def test_a_site_adds_replaces_and_removes() -> None:
    fan = {"name": "DCGM_FI_DEV_FAN_SPEED", "type": "gauge", "help": "Fan (%)"}
    away = {"name": "DCGM_FI_DEV_ENC_UTIL", "type": "none"}
    found = counters_of(P100, "auto", [], [fan, away, XID])
    assert [counter.help for counter in found if counter.name == XID["name"]] == ["last Xid"]
    assert "DCGM_FI_DEV_ENC_UTIL" not in {counter.name for counter in found}
    assert counter_lines(found)[-1] == "DCGM_FI_DEV_FAN_SPEED, gauge, Fan (%)"
    assert counter_lines(counters_of(H100, "auto", [XID], [])) == ["DCGM_FI_DEV_XID_ERRORS, gauge, last Xid"]


def test_our_own_counters_are_sound() -> None:
    own = [counter._asdict() | {"type": counter.kind} for counter in (*DEVICE_COUNTERS, *PROFILING_COUNTERS)]
    assert counter_problems(own, "k", "h") == []
    assert all(len(row) == 3 for row in csv.reader(counter_lines(counters_of(H100, "always", [], []))))
    assert {counter.kind for counter in (*DEVICE_COUNTERS, *PROFILING_COUNTERS)} <= set(KINDS)
    assert "DCGM_FI_DEV_NVLINK_BANDWIDTH_L17" in KNOWN


def test_an_unknown_field_is_named_with_what_was_meant() -> None:
    (problem,) = counter_problems([{"name": "DCGM_FI_DEV_GPU_UTILL"}], "dcgm_exporter_counters", "gpu1")
    assert problem["hosts"] == ["gpu1"]
    assert problem["key"] == "dcgm_exporter_counters[DCGM_FI_DEV_GPU_UTILL]"
    assert "is no field of DCGM" in problem["problem"]
    assert "write DCGM_FI_DEV_GPU_UTIL;" in problem["remedy"]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"name": "GPU_UTIL"}, "is no field of DCGM"),
        ({"name": "GPU_UTIL", "unchecked": True}, "is no field of DCGM"),
        ({}, "is no field of DCGM"),
        ({**XID, "type": "number"}, "type 'number' is unknown"),
        ({**XID, "help": "a\nb"}, "help breaks the line"),
        ({**XID, "help": "last Xid, of the driver"}, "help breaks the line"),
        ({**XID, "help": 'the "last" Xid'}, "help breaks the line"),
    ],
)
def test_bad_counters(item: dict[str, Any], said: str) -> None:
    (problem,) = counter_problems([item], "k", "h")
    assert said in problem["problem"]


def test_a_field_of_a_newer_dcgm_is_taken_on_demand() -> None:
    new = {"name": "DCGM_FI_DEV_NEW_THING"}
    assert counter_problems([new], "k", "h")
    assert counter_problems([{**new, "unchecked": True}], "k", "h") == []


# As Go's encoding/csv reads: the words are those of dcgm-exporter's own errors.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DCGM_FI_DEV_GPU_TEMP, gauge, a\nDCGM_FI_DEV_XID_ERRORS, gauge, b, c\n", "line 2: wrong number of fields"),
        ("DCGM_FI_DEV_GPU_TEMP, gauge, a, b\n", "expected 3 fields"),
        ('DCGM_FI_DEV_GPU_TEMP, gauge, "a, b"\n', 'bare " in non-quoted field'),
        ('DCGM_FI_DEV_GPU_TEMP,gauge,"a" b\n', 'extraneous or missing " in quoted-field'),
        ("DCGM_FI_DEV_GPU_TEMP, number, a\n", "could not find Prometheus metric type 'number'"),
        ("DCGM_FI_PROF_NOTHING, gauge, a\n", "could not find DCGM field"),
    ],
)
def test_the_replayed_exporter_refuses_what_the_real_one_refuses(tmp_path: Path, text: str, said: str) -> None:
    done = asked(tmp_path, text)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_the_replayed_exporter_takes_what_the_real_one_takes(tmp_path: Path) -> None:
    text = '# a comment, with commas\n\nDCGM_FI_DEV_GPU_TEMP,gauge,"a, ""b"""\nDCGM_FI_DEV_XID_ERRORS , gauge , b'
    done = asked(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert '# HELP DCGM_FI_DEV_GPU_TEMP a, "b"\n' in done.stdout


def exposition(folder: Path, state: str = "{}") -> str:
    """What the replayed exporter of two GPUs says."""
    done = asked(folder, "\n".join(counter_lines([*DEVICE_COUNTERS, *PROFILING_COUNTERS])), state)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(folder: Path, text: str, state: str = "{}") -> subprocess.CompletedProcess[str]:
    """The replayed exporter of two GPUs, started with a counters file."""
    (folder / "counters.csv").write_text(text, encoding="utf-8")
    (folder / "state.json").write_text(state, encoding="utf-8")
    ask = "import runpy, sys; found = runpy.run_path(sys.argv[1], run_name='program'); "
    ask += "print(found['Exposition'](found['arguments'](sys.argv[2:])).text())"
    words = ["-f", f"{folder}/counters.csv", "--gpus", "2", "--share", str(PROGRAM.parent)]
    words += ["--state", f"{folder}/state.json", "--hpc-job-mapping-dir", str(folder)]
    command = [sys.executable, "-B", "-c", ask, str(PROGRAM), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ})


def test_the_replayed_exporter_has_a_value_for_every_counter(tmp_path: Path) -> None:
    text = exposition(tmp_path)
    wanted = {counter.name for counter in (*DEVICE_COUNTERS, *PROFILING_COUNTERS) if counter.kind != "label"}
    assert {line.split("{")[0] for line in text.splitlines() if line and not line.startswith("#")} == wanted


def test_the_replayed_exporter_names_the_jobs_of_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("12\n13\n", encoding="utf-8")
    (tmp_path / "1").write_text("\n", encoding="utf-8")
    found = [line for line in exposition(tmp_path).splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL{")]
    assert [line.split(",")[-1] for line in found] == ['hpc_job="12"} 97', 'hpc_job="13"} 97', 'hpc_job=""} 0']


def test_the_replayed_exporter_says_what_it_is_told(tmp_path: Path) -> None:
    text = exposition(tmp_path, '{"0": {"DCGM_FI_DEV_XID_ERRORS": 79, "DCGM_FI_DEV_FB_USED": null}, "1": null}')
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("DCGM_FI_DEV_XID_ERRORS{")] == ["79"]
    assert "DCGM_FI_DEV_FB_USED" not in text
    assert 'gpu="1"' not in text
