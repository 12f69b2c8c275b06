"""Tests of the validation loop, with a simulated cluster and clock."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation import validation_loop as loops
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.cluster_access import (
    TOO_LONG,
    Interrupted,
    Output,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import with_results
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_loop import Loop
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import report
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.job_launch_errors import launch_log_script
from validation_samples import validation_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import Report
from validation_transport import BEGAN, NODES, Cluster

FAST = {1: 475.0}


def loop_of(cluster: Cluster, **changes: Any) -> Loop:  # noqa: ANN401 - any option
    options = validation_options(NODES, **changes)
    return Loop(options, cluster)


def told(loop: Loop) -> Report:
    return report(loop.options, loop.state, loop.stopped)


def judged_of(loop: Loop) -> dict[str, dict[str, Any]]:
    return {test["name"]: dict(test) for test in loop.state["tests"]}


def interrupt() -> None:
    why = "interrupted by SIGINT"
    raise Interrupted(why)


def test_a_healthy_cluster_passes_and_every_output_is_saved() -> None:
    cluster = Cluster()
    loop = loop_of(cluster)
    loop.run()
    assert told(loop)["verdict"] == "PASS", told(loop)["reason"]
    assert sorted(cluster.saved) == ["cluster.out", *(f"node-{node}.out" for node in NODES)]
    assert cluster.cancelled == []
    assert cluster.said[0].startswith("validation of gpu[1-4]: node: 4 test(s)")
    assert "stage cluster: 1 test(s) on gpu[1-4], at most 600 s; 7199 s left" in cluster.said
    assert any(line.startswith("PASS  cluster: ") for line in cluster.said)


def test_a_slow_node_is_found_by_the_search() -> None:
    cluster = Cluster()
    cluster.slow = {"gpu3"}
    loop = loop_of(cluster, stages=["cluster"])
    loop.run()
    assert [item["nodes"] for item in told(loop)["culprits"]] == [["gpu3"]]


def test_output_is_fetched_as_soon_as_its_job_ends() -> None:
    cluster = Cluster()
    cluster.seconds = {"node-gpu4": 300.0}
    at: dict[str, float] = {}
    fetch = cluster.fetch

    def noted(outputs: list[Output], seconds: float) -> dict[str, str]:
        at.update({output.name: cluster.time - BEGAN for output in outputs})
        return fetch(outputs, seconds)

    cluster.fetch = noted  # type: ignore[method-assign]
    loop_of(cluster, stages=["node"]).run()
    assert at["node-gpu1.out"] < 20
    assert at["node-gpu4.out"] >= 300


@pytest.mark.parametrize("pending", [0.0, 500.0])
def test_time_limit_ends_jobs_and_waits_and_reports_what_was_cut_off(pending: float) -> None:
    cluster = Cluster()
    cluster.seconds, cluster.pending = {"cluster": 1e6}, {"cluster": pending}
    loop = loop_of(cluster, stages=["cluster"], time_limit=100, wait=1000)
    loop.run()
    assert cluster.time - BEGAN <= 100
    assert all(call["left"] <= 100 for call in cluster.calls)
    assert judged_of(loop)["cluster"]["reason"] == "cut off: the time limit of the validation was reached"
    found = told(loop)
    assert (found["verdict"], found["stopped"]) == (
        "INCONCLUSIVE",
        "the time limit of 100 s for all tests cut short cluster",
    )
    assert "cut off" in found["reason"]


def test_wait_for_nodes_counts_towards_the_limit() -> None:
    cluster = Cluster()
    cluster.busy = {"gpu1": "not idle: mixed"}
    loop = loop_of(cluster, stages=["cluster"], time_limit=100, wait=90)
    cluster.seconds = {"cluster": 1e6}
    loop.run()
    assert cluster.time - BEGAN <= 100
    assert "waits for gpu1 (not idle: mixed)" in cluster.said


def test_controller_that_exceeds_the_limit_is_overruled() -> None:
    cluster = Cluster()
    cluster.seconds = {"cluster": 1e6}
    cluster.forged = {"over": False, "state": "RUNNING", "problem": ""}
    loop = loop_of(cluster, stages=["cluster"], time_limit=100)
    loop.run()
    assert cluster.time - BEGAN <= 101
    assert cluster.cancelled == ["7"]
    assert "cut off: the time limit of the validation was reached" in judged_of(loop)["cluster"]["reason"]


def test_job_that_was_cut_off_blames_no_node() -> None:
    cluster = Cluster()
    cluster.slow = {"gpu3"}
    # The cluster test is slow; one of the pairs is cut off, which does not prove that it hangs.
    cluster.seconds = {"pair-gpu1-gpu2": 1e6}
    loop = loop_of(cluster, stages=["cluster"], time_limit=60)
    loop.run()
    found = told(loop)
    assert judged_of(loop)["pair-gpu1-gpu2"]["reason"].startswith("cut off: ")
    assert not any({"gpu1", "gpu2"} & set(item["nodes"]) for item in found.get("culprits", []))
    assert found["stopped"] == "the time limit of 60 s for all tests was reached"


def test_test_limit_applies_regardless_of_the_remaining_time() -> None:
    cluster = Cluster()
    cluster.seconds = {"cluster": 1e6}
    loop = loop_of(cluster, stages=["cluster"], test_time_limit=30, time_limit=0, locate_rounds=0)
    loop.run()
    assert judged_of(loop)["cluster"]["reason"] == "did not finish within 30 s"
    assert {call["left"] for call in cluster.calls} == {None}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_interruption_keeps_the_results_and_ends_the_jobs(number: int) -> None:
    cluster = Cluster()
    cluster.seconds = {"node-gpu4": 300.0}
    cluster.at = {number: interrupt}
    loop = loop_of(cluster)
    with pytest.raises(Interrupted):
        loop.run()
    assert "10" in cluster.cancelled
    tests = judged_of(loop)
    assert tests["node-gpu4"]["reason"] == "cut off: interrupted by SIGINT"
    passed = {name for name, test in tests.items() if test["verdict"] == "PASS"}
    assert passed == (set() if number == 2 else {"node-gpu1", "node-gpu2", "node-gpu3"})
    assert told(loop)["verdict"] == "INCONCLUSIVE"


@pytest.mark.parametrize(("place", "fetched"), [("gpu1", True), ("localhost", False), ("", False)])
def test_partial_output_is_fetched_only_from_a_node_of_the_job(place: str, *, fetched: bool) -> None:
    cluster = Cluster()
    cluster.place = place
    cluster.at = {2: interrupt}
    loop = loop_of(cluster, stages=["cluster"])
    with pytest.raises(Interrupted):
        loop.run()
    assert ("cluster.out" in cluster.saved) is fetched
    assert judged_of(loop)["cluster"]["reason"] == "cut off: interrupted by SIGINT"


def test_interruption_during_submission_leaves_no_job_behind() -> None:
    cluster = Cluster()
    held: list[bool] = []

    @contextlib.contextmanager
    def uninterrupted() -> Iterator[None]:
        held.append(True)
        yield
        held.pop()
        if cluster.jobs and len(cluster.calls) == 1:
            interrupt()

    cluster.uninterrupted = uninterrupted  # type: ignore[method-assign]
    loop = loop_of(cluster)
    with pytest.raises(Interrupted):
        loop.run()
    assert sorted(cluster.cancelled) == sorted(cluster.jobs)
    assert {test["reason"] for test in loop.state["tests"]} == {"cut off: interrupted by SIGINT"}


def test_internal_error_keeps_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    real = with_results

    def broken(*arguments: Any) -> Any:  # noqa: ANN401 - as it is
        if cluster.saved.keys() & {"cluster.out"}:
            raise KeyError("busbw")  # noqa: EM101 - message of a simulated bug
        return real(*arguments)

    monkeypatch.setattr(loops, "with_results", broken)
    loop = loop_of(cluster)
    with pytest.raises(KeyError):
        loop.run()
    assert set(judged_of(loop)) == {f"node-{node}" for node in NODES}
    assert "cluster.out" in cluster.saved


def test_outputs_are_collected_after_the_controller_dies() -> None:
    cluster = Cluster()
    cluster.seconds = {"node-gpu4": 300.0}
    cluster.at = {3: lambda: setattr(cluster, "dead", True)}
    loop = loop_of(cluster)
    loop.run()
    assert cluster.time - BEGAN < 150
    found = told(loop)
    assert found["verdict"] == "INCONCLUSIVE"
    assert found["reason"].startswith("ctl did not answer for ")
    assert "Failed to connect to the host via ssh" in found["reason"]
    assert judged_of(loop)["node-gpu1"]["verdict"] == "PASS"
    assert judged_of(loop)["node-gpu4"]["reason"].startswith("cut off: ctl did not answer for ")
    assert loop.unended == ["10"]
    assert "node-gpu4.out" in cluster.saved


def test_short_outage_of_the_controller_is_tolerated() -> None:
    cluster = Cluster()
    cluster.seconds = {"cluster": 90.0}
    cluster.at = {3: lambda: setattr(cluster, "dead", True), 4: lambda: setattr(cluster, "dead", False)}
    loop = loop_of(cluster, stages=["cluster"])
    loop.run()
    assert told(loop)["verdict"] == "PASS"


def test_unreachable_controller_ends_the_validation_at_once() -> None:
    cluster = Cluster()
    cluster.dead = True
    loop = loop_of(cluster)
    loop.run()
    assert told(loop)["reason"] == "the tests could not be run: Failed to connect to the host via ssh"
    assert len(cluster.calls) == 1


def test_forged_job_answer_ends_the_validation_and_fetches_nothing() -> None:
    cluster = Cluster()
    cluster.forged = {"batch_host": "localhost"}
    loop = loop_of(cluster, stages=["cluster"])
    loop.run()
    assert "ctl returned batch_host 'localhost' for the test cluster, which is not one" in told(loop)["reason"]
    assert cluster.saved == {}
    assert cluster.cancelled == ["7"]


@pytest.mark.parametrize(
    "forged",
    [{"name": ["x"]}, {"job_id": "../../etc/shadow"}, {"output": "/etc/shadow"}, {"nodes": ["localhost"]}],
)
def test_forged_name_id_output_and_nodes_of_a_job_are_ignored(forged: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.forged = forged
    # Names, IDs and nodes of jobs are known from their submission; an answer that renames a job is ignored.
    loop = loop_of(cluster, stages=["cluster"], time_limit=100)
    loop.run()
    assert cluster.saved.keys() <= {"cluster.out"}
    assert judged_of(loop)["cluster"]["nodes"] == NODES


def test_too_long_output_is_reported_and_not_judged() -> None:
    cluster = Cluster()
    cluster.unfetched = {"cluster.out": f"{TOO_LONG}1G (validation_output_limit)"}
    loop = loop_of(cluster, stages=["cluster"])
    loop.run()
    test = judged_of(loop)["cluster"]
    assert (test["verdict"], test["reason"]) == ("INCONCLUSIVE", f"{TOO_LONG}1G (validation_output_limit)")
    # This is not a node fault, so no search is started.
    assert list(judged_of(loop)) == ["cluster"]


def test_unfetched_output_is_reported() -> None:
    cluster = Cluster()
    cluster.unfetched = {"cluster.out": "Permission denied"}
    loop = loop_of(cluster, stages=["cluster"])
    loop.run()
    assert judged_of(loop)["cluster"]["reason"] == "the output could not be fetched from gpu1"
    assert "output of cluster from gpu1: Permission denied" in cluster.said


def test_failed_launch_is_reported_with_the_reason_from_slurmd() -> None:
    cluster = Cluster()
    cluster.unfetched = {"cluster.out": "No such file or directory"}
    cluster.forged = {"state": "CANCELLED", "problem": "the job ended as CANCELLED"}
    cluster.logs = {("gpu1", "7"): "_get_user_env: Unable to get user's local environment"}
    loop = loop_of(cluster, stages=["cluster"])
    loop.run()
    test = judged_of(loop)["cluster"]
    said = "slurmd on gpu1 could not launch the job: _get_user_env: Unable to get user's local environment"
    assert (test["verdict"], test["reason"]) == ("INCONCLUSIVE", said)
    cluster = Cluster()
    cluster.unfetched = {"cluster.out": "No such file or directory"}
    cluster.forged = {"state": "CANCELLED", "problem": "the job ended as CANCELLED"}
    loop = loop_of(cluster, stages=["cluster"])
    loop.run()
    assert judged_of(loop)["cluster"]["reason"] == "the job ended as CANCELLED"


def test_no_log_is_read_without_a_job_id() -> None:
    class Forger(Cluster):
        def request(self, arguments: dict[str, Any]) -> dict[str, Any]:
            forged = {"job_id": "", "batch_host": "gpu1", "problem": "the job ended as CANCELLED"}
            answer = super().request(arguments)
            return answer | {"tests": [entry | forged for entry in answer["tests"]]}

        def launch_error(self, host: str, job_id: str) -> str:
            return f"{host}: {launch_log_script(job_id)}"

    loop = loop_of(Forger(), stages=["cluster"])
    loop.run()
    assert judged_of(loop)["cluster"]["reason"] == "the job ended as CANCELLED"


def test_reservation_is_used_from_the_first_job_and_released_once() -> None:
    cluster = Cluster()
    cluster.held = {"gpu1": "fan is loud"}
    loop = loop_of(cluster, out_of_service=True)
    loop.run()
    asked = [call["reservation"] for call in cluster.calls if "tests" in call]
    assert asked == [{"name": "", "fresh": True}, {"name": "", "fresh": False}]
    assert loop.state["held"] == told(loop)["held"] == {"gpu1": "fan is loud"}
    assert loop.release(20) == ""
    assert cluster.calls[-1] == {
        "state": "released",
        "user": "busbar-validation",
        "wait": 20,
        "reservation": {"name": "", "fresh": False},
    }


def test_nodes_that_could_not_be_restored_are_reported() -> None:
    cluster = Cluster()
    cluster.held, cluster.unrestored = {"gpu1": "fan"}, {"gpu1": "could not be drained again", "ctl": "forged"}
    loop = loop_of(cluster, out_of_service=True)
    loop.run()
    assert loop.unrestored == {"gpu1": "could not be drained again"}
    cluster.unreleased = ["reservation of the tests remains"]
    assert loop.release(20) == "reservation of the tests remains"
    cluster.dead = True
    assert loop.release(20) == "the reservation of the tests was not deleted: Failed to connect to the host via ssh"


def test_no_reservation_is_made_without_need_or_permission() -> None:
    cluster = Cluster()
    loop = loop_of(cluster)
    loop.run()
    assert [call.get("reservation") for call in cluster.calls] == [None] * len(cluster.calls)
    cluster = Cluster()
    loop = loop_of(cluster, out_of_service=True)
    loop.run()
    calls = len(cluster.calls)
    assert (loop.release(20), len(cluster.calls)) == ("", calls)
