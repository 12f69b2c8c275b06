"""Tests of the messages from NCCL's RAS about a hanging job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.ras import ras_words
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    next_step,
    with_results,
)
from report_samples import nccl_text
from validation_samples import job_entry, validation_options

# NVIDIA/nccl, docs/userguide/source/troubleshooting/ras.rst, commit 5067397c: "JSON Output" and "Sample Output".
DOCUMENTED = """{
  "nccl_version": "2.29.1",
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2025-12-19 13:06:53",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0xae94423cfbb2ef4a",
      "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
      "size": 2,
      "ranks_count": 1,
      "missing_ranks_count": 1,
      "ranks": [
        {
          "rank": 0,
          "host": "172.16.64.245",
          "pid": 1524344,
          "cuda_dev": 0,
          "nvml_dev": 0,
          "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          },
          "collective_counts": {
            "Broadcast": 0,
            "Reduce": 0,
            "AllGather": 0,
            "ReduceScatter": 0,
            "AllReduce": 0
          }
        }
      ],
      "missing_ranks": [
        {
          "rank": 1,
          "host": "172.16.64.245",
          "pid": 1524345,
          "cuda_dev": 1,
          "nvml_dev": 1,
          "status": {
            "unresponsive": true,
            "considered_dead": false
          }
        }
      ]
    }
  ],
  "ras": {
    "collection_time_sec": 0.000,
    "timeouts_count": 0
  }
}
"""
OLDER = """ERROR: Unknown command set format json

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data
"""


def said(text: str) -> str:
    """Return an answer as a job prints it."""
    return "".join(f"# busbar ras: {line}\n" for line in text.splitlines())


def changed(rank: dict[str, Any], missing: list[dict[str, Any]] | None = None) -> str:
    """Return the documented answer with a second rank that answers, and the changes applied to it."""
    found = json.loads(DOCUMENTED)
    (comm,) = found["communicators"]
    comm["missing_ranks"] = missing or []
    comm["missing_ranks_count"] = len(comm["missing_ranks"])
    other = json.loads(json.dumps(comm["ranks"][0]))
    comm["ranks"].append(other | {"rank": 1, "nvml_dev": 1} | rank)
    return "OK\n" + json.dumps(found, indent=2)


NAME = "NCCL communicator 0xae94423cfbb2ef4a"
FIRST = "rank 1 (GPU 1 of 172.16.64.245)"
ZERO = "rank 0 (GPU 0 of 172.16.64.245)"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (f"OK\n{DOCUMENTED}", [f"{NAME}: {FIRST} does not answer"]),
        (DOCUMENTED.replace('dead": false', 'dead": true'), [f"{NAME}: {FIRST} is dead"]),
        (
            changed({"collective_counts": {"AllReduce": 6650}}),
            [
                f"{NAME}: {ZERO} is behind: started 0 AllReduce, while 1 of 2 ranks started 6650",
            ],
        ),
        (changed({"status": {"async_error": 6}}), [f"{NAME}: {FIRST} reports error 6"]),
        (changed({"status": {"init_state": 7}}), [f"{NAME}: {FIRST} has not finished its initialization"]),
        (changed({}), ["NCCL's RAS reports that all ranks respond and none is behind"]),
        (DOCUMENTED[:500], ["the response of NCCL's RAS is incomplete; see the output"]),
        ('{"communicators": []}', ["NCCL's RAS reports no communicator"]),
        ("[1]{", ["the response of NCCL's RAS is incomplete; see the output"]),
    ],
)
def test_unresponsive_and_late_ranks_are_named(answer: str, words: list[str]) -> None:
    assert ras_words(f"# a line\n{said(answer)}another\n") == words


def test_text_of_older_releases_is_shown_unchanged() -> None:
    found = ras_words(said(OLDER))
    assert "NCCL's RAS: Process 3487984 on node 172.16.64.213 managing GPU 5" in found
    assert "NCCL's RAS: The missing rank: 21" in found
    assert not any("timeouts" in words or "Unknown command" in words for words in found)


def test_without_queries_nothing_is_reported() -> None:
    assert ras_words(nccl_text(["gpu1", "gpu2"], 8, 365.0)) == []


@pytest.mark.parametrize("value", [None, 3, "x", [], [3], {"a": 1}, {"rank": []}])
@pytest.mark.parametrize("key", ["hash", "ranks", "missing_ranks", "missing_ranks_count", "size"])
def test_damaged_answer_does_not_raise(key: str, value: object) -> None:
    found = json.loads(DOCUMENTED)
    found["communicators"][0][key] = value
    assert ras_words(said(json.dumps(found)))
    found["communicators"][0]["ranks"] = [{"rank": 1, "status": value, "collective_counts": value, "host": value}]
    assert ras_words(said(json.dumps(found)))


def test_ras_answer_is_not_part_of_the_table() -> None:
    table = nccl_text(["gpu1", "gpu2"], 8, 365.0)
    assert parse_text(table + said(DOCUMENTED), numbered=False) == parse_text(table, numbered=False)


def test_hanging_test_names_the_missing_ranks_and_passing_test_does_not() -> None:
    asked = validation_options(["gpu1", "gpu2"], stages=["cluster"])
    step = next_step(asked)
    table = nccl_text(["gpu1", "gpu2"], 8, 365.0)
    hung = table[: table.index("  float")] + "\n"
    problem = "did not finish within 600 s and was cancelled"
    entry = job_entry("cluster", ["gpu1", "gpu2"], problem=problem, state="CANCELLED")
    (test,) = with_results(asked, None, step, {"tests": [entry]}, [hung + said(DOCUMENTED)])["tests"]
    assert (test["verdict"], test["reason"]) == ("INCONCLUSIVE", problem)
    assert f"{NAME}: {FIRST} does not answer" in test["findings"]
    entry = job_entry("cluster", ["gpu1", "gpu2"])
    (test,) = with_results(asked, None, step, {"tests": [entry]}, [table + said(DOCUMENTED)])["tests"]
    assert (test["verdict"], [words for words in test["findings"] if "communicator" in words]) == ("PASS", [])
