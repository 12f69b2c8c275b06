"""Tests of additional counters, and of the simulated exporter that other tests use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.dcgm.checks import counter_problems
from dcgm_fields import read_counters

PROGRAM = Path(__file__).parents[4] / "fixtures/dcgm/dcgm-exporter"
XID = {"name": "DCGM_FI_DEV_XID_ERRORS", "type": "gauge", "help": "last Xid"}


COUNTERS = "".join(f"{each['name']}, {each['type']}, {each['help']}\n" for each in read_counters())
READ = [each["name"] for each in read_counters()]


def test_counters_of_the_role_are_valid() -> None:
    counters = read_counters()
    assert counter_problems(counters, READ, "k", "h") == []
    assert {each["type"] for each in counters} == {"gauge", "counter", "label"}


def test_unknown_field_is_reported_with_a_suggestion() -> None:
    (problem,) = counter_problems([{"name": "DCGM_FI_DEV_GPU_UTILL"}], READ, "dcgm_exporter_counters", "gpu1")
    assert problem["hosts"] == ["gpu1"]
    assert problem["key"] == "dcgm_exporter_counters[DCGM_FI_DEV_GPU_UTILL]"
    assert "is not a field of DCGM" in problem["problem"]
    assert "write DCGM_FI_DEV_GPU_UTIL;" in problem["remedy"]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"name": "GPU_UTIL"}, "is not a field of DCGM"),
        ({"name": "GPU_UTIL", "unchecked": True}, "is not a field of DCGM"),
        ({}, "is not a field of DCGM"),
        ({**XID, "type": "number"}, "type 'number' is unknown"),
        ({**XID, "help": "a\nb"}, "help contains a comma, quotation mark or line break"),
        ({**XID, "help": "last Xid, of the driver"}, "help contains a comma, quotation mark or line break"),
        ({**XID, "help": 'the "last" Xid'}, "help contains a comma, quotation mark or line break"),
    ],
)
def test_invalid_counters_are_refused(item: dict[str, Any], said: str) -> None:
    (problem,) = counter_problems([item], READ, "k", "h")
    assert said in problem["problem"]


def test_field_of_a_newer_dcgm_is_accepted_if_unchecked() -> None:
    new = {"name": "DCGM_FI_DEV_NEW_THING"}
    assert counter_problems([new], READ, "k", "h")
    assert counter_problems([{**new, "unchecked": True}], READ, "k", "h") == []


# Rules of Go's encoding/csv; the messages are the errors of dcgm-exporter.
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
def test_simulated_exporter_refuses_the_same_files_as_the_real_one(tmp_path: Path, text: str, said: str) -> None:
    done = asked(tmp_path, text)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def exposition(folder: Path, state: str = "{}") -> str:
    """Return the output of the simulated exporter with two GPUs."""
    done = asked(folder, COUNTERS, state)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(folder: Path, text: str, state: str = "{}") -> subprocess.CompletedProcess[str]:
    """Run the simulated exporter with two GPUs and this counters file."""
    (folder / "counters.csv").write_text(text, encoding="utf-8")
    (folder / "state.json").write_text(state, encoding="utf-8")
    ask = "import runpy, sys; found = runpy.run_path(sys.argv[1], run_name='program'); "
    ask += "print(found['Exposition'](found['arguments'](sys.argv[2:])).text())"
    words = ["-f", f"{folder}/counters.csv", "--gpus", "2", "--share", str(PROGRAM.parent)]
    words += ["--state", f"{folder}/state.json", "--hpc-job-mapping-dir", str(folder)]
    command = [sys.executable, "-B", "-c", ask, str(PROGRAM), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ})


def test_simulated_exporter_has_a_value_for_every_counter(tmp_path: Path) -> None:
    text = exposition(tmp_path)
    wanted = {each["name"] for each in read_counters() if each["type"] != "label"}
    assert {line.split("{")[0] for line in text.splitlines() if line and not line.startswith("#")} == wanted
