"""Tests of draining nodes and waiting for their jobs, with fake Slurm commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import slurm_drain
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

REASON = "busbar: leaves the cluster"


class Slurm:
    """A controller whose nodes and jobs are files."""

    def __init__(self, folder: Path) -> None:
        """Write the fake commands."""
        self.folder = folder
        for name, text in {
            "sinfo": 'cat "$0.answer"',
            # The last answer is repeated.
            "squeue": 'echo "$@" >>"$0.asked"; [ ! -s "$0.next" ] || mv "$0.next" "$0.answer"; cat "$0.answer"',
            "scontrol": 'printf "%s\\n" "$@" >>"$0.asked"',
        }.items():
            executable(folder / name, f"#!/bin/sh\n{text}\n")
        (folder / "sinfo.answer").write_text("gpu1|idle|none\ngpu2|mixed|none\ngpu3|drained|fan broken\n")
        self.jobs("")

    def jobs(self, now: str, then: str = "") -> None:
        """Set the first output of squeue, and the later ones."""
        (self.folder / "squeue.answer").write_text(now)
        (self.folder / "squeue.next").write_text(then)

    @property
    def told(self) -> list[str]:
        """Return the arguments that scontrol got."""
        path = self.folder / "scontrol.asked"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm_drain, "BETWEEN_LOOKS_S", 0.01)
    return Slurm(tmp_path)


@pytest.fixture
def run(slurm: Slurm, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - a function
    del slurm

    def call(nodes: object, **arguments: object) -> dict[str, Any]:
        given = {"nodes": nodes, "reason": REASON, "key": "remove_nodes", "wait_key": "remove_nodes_wait", **arguments}
        return module_result(slurm_drain, capsys, **given)

    return call


def test_nodes_in_service_are_drained_in_one_step(slurm: Slurm, run: Any) -> None:  # noqa: ANN401
    done = run("gpu[1-3]")
    assert (done["changed"], done["nodes"], done["drained"]) == (True, ["gpu1", "gpu2", "gpu3"], ["gpu1", "gpu2"])
    assert slurm.told == ["update", "NodeName=gpu1,gpu2", "State=DRAIN", f"Reason={REASON}"]


def test_drain_by_an_admin_keeps_its_reason(slurm: Slurm, run: Any) -> None:  # noqa: ANN401
    done = run(["gpu3"])
    assert (done["changed"], done["before"]) == (False, {"gpu3": "fan broken"})
    assert slurm.told == []


@pytest.mark.parametrize(
    ("state", "before", "reason", "in_service"),
    [
        ("down", "bad psu", "bad psu", False),
        ("failing", "bad psu", "bad psu", False),
        ("down*", "Not responding", REASON, True),
        ("down", "none", REASON, True),
        ("mixed", "high load", REASON, True),
    ],
)
def test_node_set_down_by_an_admin_is_drained_with_that_reason_and_not_resumed(  # noqa: PLR0913, PLR0917 - a table
    slurm: Slurm,
    run: Any,  # noqa: ANN401
    state: str,
    before: str,
    reason: str,
    in_service: bool,  # noqa: FBT001
) -> None:
    (slurm.folder / "sinfo.answer").write_text(f"gpu1|idle|none\ngpu2|{state}|{before}\n")
    done = run("gpu[1-2]")
    lines = slurm.told
    told = [lines[start : start + 4] for start in range(0, len(lines), 4)]
    nodes = [["gpu1,gpu2", REASON]] if in_service else [["gpu1", REASON], ["gpu2", reason]]
    assert told == [["update", f"NodeName={names}", "State=DRAIN", f"Reason={why}"] for names, why in nodes]
    assert done["drained"] == (["gpu1", "gpu2"] if in_service else ["gpu1"])
    assert done["before"] == ({} if in_service else {"gpu2": before})


def test_jobs_that_end_before_the_timeout_are_waited_for(slurm: Slurm, run: Any) -> None:  # noqa: ANN401
    slurm.jobs("41|alice|gpu2\n", " \n")
    assert run("gpu2", wait_s=60)["changed"] is True


def test_remaining_jobs_are_named_and_not_cancelled(slurm: Slurm, run: Any) -> None:  # noqa: ANN401
    slurm.jobs("41|alice|gpu[1-2]\n42_7|bob|gpu2\n")
    done = run("gpu[1-2]")
    assert done["failed"]
    assert "gpu1,gpu2: job 41 of alice on gpu[1-2], job 42_7 of bob on gpu2, after 0 s" in done["msg"]
    for words in (
        "No job was cancelled",
        "stay drained",
        "larger remove_nodes_wait",
        "nodename=gpu1,gpu2 state=resume",
    ):
        assert words in done["msg"]
    assert done["busy"] == {"gpu1": ["job 41 of alice"], "gpu2": ["job 41 of alice", "job 42_7 of bob"]}
    assert "RUNNING" in (slurm.folder / "squeue.asked").read_text()


@pytest.mark.parametrize(
    ("gpu1", "remedy"),
    [
        ("idle|none", "(scancel), or resume the nodes: scontrol update nodename=gpu1 state=resume"),
        (f"draining|{REASON}", "(scancel), or resume the nodes: scontrol update nodename=gpu1 state=resume"),
        ("drained|bad psu", "or cancel the jobs (scancel)"),
    ],
)
def test_the_remedy_does_not_resume_a_node_that_an_admin_drained(
    slurm: Slurm,
    run: Any,  # noqa: ANN401
    gpu1: str,
    remedy: str,
) -> None:
    (slurm.folder / "sinfo.answer").write_text(f"gpu1|{gpu1}\ngpu2|down|bad board\ngpu3|drained|fan broken\n")
    slurm.jobs("41|alice|gpu[1-3]\n")
    assert run("gpu[1-3]")["msg"].endswith(remedy)


@pytest.mark.parametrize(
    ("nodes", "queue", "would"),
    [
        (
            "gpu2",
            "41|alice|gpu2\n",
            ["would drain gpu2 and wait for job 41 of alice on gpu2", "60 s (remove_nodes_wait)"],
        ),
        ("gpu[1-3]", "", ["would drain gpu1,gpu2", "no jobs on gpu1,gpu2,gpu3 now"]),
        ("gpu3", "42|bob|gpu3\n", ["would leave gpu3 drained and wait for job 42 of bob on gpu3", "the run stops"]),
    ],
    ids=["busy", "free", "drained before"],
)
def test_check_mode_reports_and_changes_nothing(
    slurm: Slurm,
    run: Any,  # noqa: ANN401
    nodes: str,
    queue: str,
    would: list[str],
) -> None:
    slurm.jobs(queue)
    done = run(nodes, wait_s=60, _ansible_check_mode=True)
    assert done["changed"] is (nodes != "gpu3")
    assert [words for words in would if words not in done["would"]] == []
    assert slurm.told == []


@pytest.mark.parametrize(
    ("nodes", "arguments", "said"),
    [
        ("gpu4", {}, "remove_nodes: not nodes in Slurm: gpu4 (did you mean gpu3?)"),
        ("", {}, "remove_nodes is empty"),
        ([], {}, "remove_nodes is empty"),
        (f"gpu[1-{10**6}]", {}, "remove_nodes: host list of more than 65536 names"),
        ("gpu1", {"wait_s": "1h"}, "remove_nodes_wait: '1h' is not a number of seconds: use 0 or more"),
        ("gpu1", {"wait_s": -5}, "remove_nodes_wait: -5 is not a number of seconds: use 0 or more"),
        (
            "gpu[1-2]",
            {"protect": {"slurm_controller": ["gpu1"], "monitoring": ["ctl"]}},
            "remove_nodes: gpu1 is in the group slurm_controller",
        ),
    ],
)
def test_invalid_request_is_refused_before_any_change(
    slurm: Slurm,
    run: Any,  # noqa: ANN401
    nodes: object,
    arguments: dict[str, object],
    said: str,
) -> None:
    done = run(nodes, **arguments)
    assert done["failed"]
    assert said in done["msg"]
    assert done["busbar_refused"]
    assert slurm.told == []


@pytest.mark.parametrize("command", ["sinfo", "squeue"])
def test_unresponsive_controller_ends_the_module(slurm: Slurm, run: Any, command: str) -> None:  # noqa: ANN401
    (slurm.folder / command).write_text("#!/bin/sh\necho Unable to contact slurm controller >&2; exit 1\n")
    done = run("gpu2", wait_s=60)
    assert done["failed"]
    assert "the jobs are unknown" in done["msg"]
    assert "Unable to contact slurm controller" in done["msg"]


def test_drain_reason_is_replaced_on_request(slurm: Slurm, run: Any) -> None:  # noqa: ANN401 - a function
    assert run("gpu[1,3]", replace_reason=True)["changed"] is True
    assert slurm.told == ["update", "NodeName=gpu1,gpu3", "State=DRAIN", f"Reason={REASON}"]
    (slurm.folder / "sinfo.answer").write_text(f"gpu3|drained|{REASON}\n")
    assert run("gpu3", replace_reason=True)["changed"] is False
