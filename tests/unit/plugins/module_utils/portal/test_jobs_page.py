"""Tests of the page with a user's jobs."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_resources import Partition
from ansible_collections.busbar.cluster.plugins.module_utils.portal.jobs_page import (
    _VERDICTS,
    NOTHING,
    cluster_rows,
    ended_rows,
    queue_rows,
    validated,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.result_presentation import CODES

GRAFANA = "https://grafana.example.org/base"
RUNNING: dict[str, Any] = {
    "number": "14_2",
    "raw": "16",
    "name": "train",
    "state": "RUNNING",
    "partition": "batch",
    "reason": "None",
    "left": "4:49",
    "start": 1795578245,
    "gpus": 2,
    "nodes": "gpu1",
}
WAITING = RUNNING | {"state": "PENDING", "reason": "Resources", "gpus": 0, "nodes": "", "left": "1:00:00"}
ENDED: dict[str, Any] = {
    "number": "4",
    "raw": "4",
    "name": "train",
    "state": "TIMEOUT",
    "partition": "batch",
    "end": 1795578245,
    "seconds": 90061,
    "cpus": 4,
    "gpus": 1,
    "cpu": 0.256,
    "memory": None,
    "gpu": 0.0,
}
METRICS = """# HELP busbar_validation_verdict Verdict of the last validation: 0 PASS, 1 FAIL, 3 INCONCLUSIVE.
busbar_validation_verdict{cluster="a}{verdict=\\"PASS\\"} 9"} 3
busbar_validation_timestamp_seconds{cluster="lab"} 1795578245
busbar_validation_tests{cluster="lab",verdict="PASS"} 12
busbar_validation_tests{cluster="lab",verdict="FAIL"} 0
busbar_validation_tests{cluster="lab",verdict="INCONCLUSIVE"} 2
busbar_node_verdict{cluster="lab",node="gpu1",stage="node",collective=""} 0
"""


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_queued_jobs_are_listed() -> None:
    running, waiting = queue_rows([RUNNING, WAITING], GRAFANA)
    assert queue_rows([RUNNING | {"left": "UNLIMITED"}], "")[0]["left"] == "no limit"
    assert (running["state"], running["left"], running["nodes"], running["start"]) == ("runs", "4:49", "gpu1", "")
    assert running["url"] == f"{GRAFANA}/d/busbar-job?var-job=16"
    assert (waiting["left"], waiting["nodes"], waiting["gpus"], waiting["url"]) == (NOTHING, NOTHING, NOTHING, "")
    assert waiting["start"] == "2026-11-25 03:44 UTC"
    assert queue_rows([RUNNING], "")[0]["url"] == ""


def test_ended_jobs_are_listed() -> None:
    (row,) = ended_rows([ENDED], "")
    assert (row["state"], row["took"], row["end"]) == ("reached its time limit", "1-1:01:01", "2026-11-25 03:44 UTC")
    assert (row["cpu"], row["memory"], row["gpu"]) == ("26 %", NOTHING, "0 %")


def test_partitions() -> None:
    nodes = {"idle": 1, "mixed": 2, "allocated": 0, "reserved": 0, "out": 1}
    batch = Partition("batch", True, 0, frozenset(), frozenset(), 8, 6, {"h100": 8, "": 2}, {"h100": 5}, 8, nodes)  # noqa: FBT003
    (row,) = cluster_rows([batch])
    assert row == {"name": "batch", **nodes, "gpus": ["0 of 2", "5 of 8 h100"], "cpus": "6 of 8"}


def test_last_validation_is_read_from_metrics() -> None:
    told = METRICS.replace('"a}{verdict=\\"PASS\\"} 9"', '"lab"')
    assert validated(told) == {
        "verdict": "INCONCLUSIVE",
        "began": "2026-11-25 03:44 UTC",
        "tests": "12 of 14 tests passed",
    }
    assert validated("") == {}
    assert {word: code for code, word in _VERDICTS.items()} == CODES
    for bad in ("x", METRICS, told.replace('"lab"} 3', '"lab"} 7'), told.replace("timestamp", "time")):
        with pytest.raises(ValueError, match="no validation verdict"):
            validated(bad)
