"""Tests of the controller's answer: accepted values, and rejected forgeries."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.controller_answer_check import (
    checked_answer,
    output_path,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import report
from validation_samples import job_entry, validation_options

NODES = ["gpu1", "gpu2"]
OPTIONS = validation_options(NODES, stages=["cluster"], pool=[*NODES, "gpu3"])
STEP = next_step(OPTIONS)


def answered(**changes: Any) -> Any:  # noqa: ANN401 - any part of an entry
    entry = {**job_entry("cluster", NODES), "output": "/etc/shadow", **changes}
    return checked_answer(OPTIONS, STEP, {"tests": [entry], "node_reasons": ["gpu9 fan"]}, "ctl")


def test_valid_answer_is_accepted_and_the_output_path_is_computed_locally() -> None:
    found = answered()
    (entry,) = found["tests"]
    assert (entry["batch_host"], entry["job_id"], entry["output"]) == ("gpu1", "7", "/var/log/x-7.out")
    assert (found["node_reasons"], found["msg"]) == (["gpu9 fan"], "")
    assert entry["nodes"] == NODES


def test_busy_jobs_are_accepted_as_text_of_one_line() -> None:
    words = {"gpu2": "job 11 of alice\x1b[2J\nPASS"}
    (entry,) = answered(nodes=["gpu1"], left_out=words, busy=words)["tests"]
    assert entry["busy"] == entry["left_out"] == {"gpu2": "job 11 of alice [2J PASS"}
    assert answered(busy="all")["tests"][0]["busy"] == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_host": "localhost"}, "returned batch_host 'localhost' for the test cluster, which is not one"),
        ({"batch_host": "127.0.0.1"}, "returned batch_host '127.0.0.1'"),
        ({"batch_host": "login"}, "returned batch_host 'login'"),
        ({"batch_host": "gpu3"}, "returned batch_host 'gpu3'"),
        ({"batch_host": ["gpu1"]}, "returned batch_host ['gpu1']"),
        ({"job_id": "../../home/op/secrets/ssh_ca"}, "returned job_id '../../home/op/secrets/ssh_ca' for the test"),
        ({"job_id": "7; rm -rf /"}, "returned job_id '7; rm -rf /'"),
        ({"job_id": "7\n"}, "returned job_id '7\\n'"),
        ({"job_id": "\u0667"}, "returned job_id"),
        ({"job_id": 7}, "returned job_id 7"),
        ({"nodes": ["gpu1", "localhost"]}, "returned a node 'localhost' for nodes of the test cluster"),
        ({"nodes": ["gpu1", "gpu1"]}, "which is not one of gpu[1-2]"),
        ({"nodes": "gpu1"}, "returned a list 'gpu1' for nodes of the test cluster"),
        ({"partners": ["gpu3"]}, "returned a node 'gpu3' for partners of the test cluster"),
        ({"left_out": {"ctl": "x"}}, "returned a node 'ctl' for left_out"),
        ({"busy": {"ctl": "x"}}, "returned a node 'ctl' for busy"),
        ({"name": "../../report.html"}, "has no entry of that name"),
    ],
)
def test_forged_answer_is_refused_completely(changes: dict[str, Any], words: str) -> None:
    found = answered(**changes)
    assert (found["tests"], found["node_reasons"]) == ([], [])
    assert found["msg"].startswith("ctl returned ")
    assert words in found["msg"]
    # Such an answer never repeats the requested tests, and the report names its sender.
    state = with_results(OPTIONS, None, STEP, found, [])
    assert next_step(OPTIONS, state)["tests"] == []
    told = report(OPTIONS, state, "")
    assert told["verdict"] == "INCONCLUSIVE"
    assert "ctl returned " in told["reason"]


@pytest.mark.parametrize("tests", ["gpu1", {"a": 1}, [1, 2], [None], [[]]])
def test_answer_of_another_type_is_refused(tests: object) -> None:
    found = checked_answer(OPTIONS, STEP, {"tests": tests}, "ctl")
    assert found["tests"] == []
    assert found["msg"].startswith("ctl returned ")


def test_texts_are_truncated_and_printable() -> None:
    found = answered(problem="\x1b[2J" + "x" * 10_000, state=["RUNNING"], seconds=float("inf"))
    (entry,) = found["tests"]
    assert entry["problem"].startswith(" [2Jxxx")
    assert (len(entry["problem"]), entry["state"], entry["seconds"]) == (2000, "['RUNNING']", 0.0)


def test_a_failed_module_keeps_its_message() -> None:
    found: Any = checked_answer(OPTIONS, STEP, {"msg": "Connection refused", "unreachable": True}, "ctl")
    assert found == {"tests": [], "node_reasons": [], "msg": "Connection refused"}


@pytest.mark.parametrize("job", ["", "x", "../7", "7/../../x", "-1", "1" * 11])
def test_output_path_accepts_only_a_numeric_job_id(job: str) -> None:
    with pytest.raises(ValueError, match="is not a job ID"):
        output_path("/var/log/x-%j.out", job)
