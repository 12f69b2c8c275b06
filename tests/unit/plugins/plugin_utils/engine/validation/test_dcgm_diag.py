"""Tests of parsing and judging dcgmi diagnoses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.dcgm_diag import (
    judge_diag,
    read_diag,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from validation_samples import CATALOGUE

GPU = Path(__file__).parents[7] / "shared" / "gpu"
ENTRIES = [
    entry
    for entry in (json.loads((GPU / "index.json").read_text()) if (GPU / "index.json").is_file() else [])
    if entry["kind"] == "dcgm-diag"
]
# DCGM 4 reports entities, and a summary of each test.
MODERN: dict[str, Any] = {
    "DCGM Diagnostic": {
        "metadata": {"version": "4.4.1", "Driver Version Detected": "570.133.20"},
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {
                        "name": "software",
                        "results": [
                            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": n, "status": "Pass"}
                            for n in range(2)
                        ],
                        "test_summary": {"status": "Pass"},
                    }
                ],
            },
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "memory",
                        "results": [
                            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
                            {
                                "entity_group": "GPU",
                                "entity_group_id": 1,
                                "entity_id": 1,
                                "status": "Fail",
                                "warnings": [{"warning": "GPU 1 had uncorrectable errors", "error_id": 84}],
                            },
                        ],
                        "test_summary": {"status": "Fail"},
                    }
                ],
            },
        ],
    }
}


def judged(text: str, hardware: str = "") -> dict[str, Any]:
    return judge_diag(read_diag(text), {"node": "gpu7", "profile": CATALOGUE.get(hardware), "hardware": hardware})


def old(*results: dict[str, Any]) -> str:
    """Return a diagnosis in the format of DCGM 3."""
    tests = [{"name": f"test{number}", "results": [result]} for number, result in enumerate(results)]
    return json.dumps({"DCGM GPU Diagnostic": {"test_categories": [{"category": "Stress", "tests": tests}]}})


@pytest.mark.skipif(not ENTRIES, reason=f"no recordings in {GPU}")
@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["file"] for entry in ENTRIES])
def test_recordings_are_parsed_and_judged(entry: dict[str, Any]) -> None:
    text = (GPU / entry["file"]).read_text(encoding="utf-8")
    data, facts = read_diag(text), entry["facts"]
    assert (data["errors"], data["version"]) == ([], facts["versions"].get("version"))
    found = [
        (result["category"], result["test"], ",".join(map(str, result["ids"])), result["status"])
        for result in data["results"]
    ]
    assert found == [
        (test["category"], test["name"], result.get("gpu_ids", ""), result["status"].lower())
        for test in facts["tests"]
        for result in test["results"]
    ]
    failed = sum(count for word, count in facts["status_counts"].items() if word.lower() == "fail")
    assert judged(text)["verdict"] == ("FAIL" if failed else "PASS")


@pytest.mark.skipif(not ENTRIES, reason=f"no recordings in {GPU}")
def test_a_recorded_failure_names_test_gpu_and_message() -> None:
    found = judged((GPU / "dcgm-diag/006-dcgm-per-gpu.json").read_text(encoding="utf-8"))
    assert found["reason"].startswith("gpu7: sm_stress of GPU 0 failed: Max stress level of 2128.7 did not exceed")
    assert found["pairs"] == [[0], [2], [3]]
    assert any(finding.startswith("diagnostic of GPU 0, 1, 2, 3 was skipped") for finding in found["findings"])


def test_dcgm_4_entities_are_parsed() -> None:
    found = judged("# busbar: Kernel=6.1\n" + json.dumps(MODERN) + "\nbye")
    assert (found["verdict"], found["version"], found["driver"]) == ("FAIL", "4.4.1", "570.133.20")
    assert found["reason"] == "gpu7: memory of GPU 1 failed: GPU 1 had uncorrectable errors"
    assert (found["pairs"], found["findings"]) == ([[1]], [])


@pytest.mark.parametrize(
    ("results", "verdict", "words"),
    [
        (({"status": "Pass", "gpu_ids": "0,1"},), "PASS", "1 results passed"),
        (({"status": "Warn", "warnings": "hot"}, {"status": "PASS"}), "PASS", "test0 warns: hot"),
        (({"status": "Skip", "gpu_ids": "0"}, {"status": "PASS"}), "PASS", "test0 of GPU 0 was skipped"),
        (({"status": "Pass", "warnings": [{"warnings": "slow"}]},), "PASS", "slow"),
        (({"status": "FAIL", "gpu_id": 3},), "FAIL", "test0 of GPU 3 failed"),
        (({"status": "Skip"}, {"status": "Not Run"}), "INCONCLUSIVE", "every test was skipped"),
        (({"status": "Maybe"}, {"status": "Pass"}), "INCONCLUSIVE", "test0 has the unknown status 'Maybe'"),
        (({"status": "Pass"}, {}), "INCONCLUSIVE", "test1 has the unknown status 'no status'"),
    ],
)
def test_statuses(results: tuple[dict[str, Any], ...], verdict: str, words: str) -> None:
    found = judged(old(*results))
    assert found["verdict"] == verdict
    assert words in " ".join([found["reason"], *found["findings"]])


def test_undiagnosed_gpus_are_reported_missing() -> None:
    text = old({"status": "Pass", "gpu_ids": "0,1,2"})
    assert judged(text, "l40s")["reason"] == "gpu7: 3 GPU(s) were diagnosed (expected 4)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the output contains no JSON from dcgmi diag"),
        ("Error: unable to establish a connection to the specified host: localhost", "unable to establish"),
        ("bash: dcgmi: command not found", "command not found"),
        (json.dumps(MODERN)[:-30], "the output contains no JSON from dcgmi diag"),
        ('{"other": {}}', "the output contains no JSON from dcgmi diag"),
        ('{"DCGM Diagnostic": {}}', "contains no test"),
        ('{"DCGM Diagnostic": {"runtime_error": "nvvs crashed"}}', "did not run: nvvs crashed"),
        ('{"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "pcie"}]}]}}', "the test pcie has no result"),
        ('{"DCGM Diagnostic": {"test_categories": [3, {"tests": [4]}]}}', "has no result"),
        ("[" * 100_000, "the output contains no JSON"),
        ('{"a":' * 2000, "the output contains no JSON"),
    ],
)
def test_unreadable_diagnosis_is_inconclusive(text: str, words: str) -> None:
    found = judged(text)
    assert found["verdict"] == "INCONCLUSIVE"
    assert words in found["reason"]
    assert found["findings"] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["status", "results", "name"]), inner),
    max_leaves=8,
)


@settings(max_examples=120, deadline=None)
@given(JSON, JSON)
def test_any_json_is_parsed_without_an_exception(one: object, two: object) -> None:
    category = {"category": one, "tests": [{"name": two, "results": [one, two, {"status": one, "warnings": two}]}]}
    found = judged(json.dumps({"DCGM Diagnostic": {"metadata": one, "test_categories": [category, two]}}))
    assert found["verdict"] in {"PASS", "FAIL", "INCONCLUSIVE"}
    json.dumps(found, allow_nan=False)
