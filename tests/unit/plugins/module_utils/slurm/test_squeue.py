"""Tests of parsing the output of squeue, sdiag and scontrol ping."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.squeue import (
    Job,
    Scheduler,
    controllers_up,
    fresh_marks,
    queue_format,
    read_jobs,
    read_scheduler,
)
from slurm_samples import MARKS, SDIAG, job_record


def test_running_job_is_parsed() -> None:
    nodes = "gpu[1-2]"
    assert read_jobs(job_record(7, nodes=nodes), MARKS) == [
        Job("7", "running", "batch", "alice", "research", "None", 1000, 1060, 2, ("gpu1", "gpu2"), "train")
    ]


@pytest.mark.parametrize("name", ["", "a\nb", 'say "x"\\', "tab\tend ", "a\x1fb", "n\u00e4me", "{}", "\ufffd"])
def test_job_name_can_contain_any_character(name: str) -> None:
    jobs = read_jobs(job_record(1, name=name) + job_record(2), MARKS)
    assert [(job.number, job.name) for job in jobs] == [("1", name), ("2", "train")]


def test_job_name_cannot_forge_a_job() -> None:
    forged = ("777", "RUNNING", "batch", "alice", "research", "None", "1000", "1060", "gres/gpu=8", "n[0-199999]", "x")
    name = "x\x1e" + "\x1f".join(forged) + "\x1e"
    (job,) = read_jobs(job_record(1, name=name), MARKS)
    assert (job.number, job.gpus, job.nodes, job.name) == ("1", 2, ("gpu1",), name)


def test_separators_are_unique_per_call_and_not_guessable() -> None:
    seen = {mark for _ in range(100) for mark in fresh_marks()}
    assert len(seen) == 200
    assert min(len(mark) for mark in seen) > 32
    assert queue_format(MARKS).startswith(f"JobID:{MARKS.field},State:{MARKS.field},")
    assert queue_format(MARKS).endswith(f",Name:{MARKS.record}")


@pytest.mark.parametrize("broken", [MARKS.record, f"1{MARKS.field}RUNNING{MARKS.record}", "777", job_record(2)[:-9]])
def test_answer_with_an_invalid_line_is_refused(broken: str) -> None:
    with pytest.raises(ValueError, match="invalid job line"):
        read_jobs(job_record(1) + broken, MARKS)


def test_job_on_too_many_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="host list of more than 65536 names"):
        read_jobs(job_record(1, nodes="n[0-199999]"), MARKS)


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("Resources", "Resources"),
        ("ReqNodeNotAvail, UnavailableNodes:gpu[1-2]", "ReqNodeNotAvail"),
        ("(null)", "None"),
        ("", "None"),
        ("QOSMaxGRESPerUser", "QOSMaxGRESPerUser"),
    ],
)
def test_reasons_are_reduced_to_a_small_set(reason: str, word: str) -> None:
    assert read_jobs(job_record(reason=reason), MARKS)[0].reason == word


def test_pending_job_is_parsed() -> None:
    (job,) = read_jobs(
        job_record(state="PENDING", partition="a,b", start="N/A", eligible="Unknown", tres="N/A", nodes=""), MARKS
    )
    assert (job.state, job.partition, job.start, job.eligible, job.gpus, job.nodes) == ("pending", "a", 0, 0, 0, ())


def test_empty_queue_is_parsed() -> None:
    assert read_jobs("\n", MARKS) == []


def test_invalid_squeue_output_is_not_an_empty_queue() -> None:
    with pytest.raises(ValueError, match="invalid job line: 'squeue: what'"):
        read_jobs("squeue: what", MARKS)


def test_sdiag() -> None:
    assert read_scheduler(SDIAG) == Scheduler(cycle=0.0015, backfill=2.5, threads=3, dbd_queue=7, rpcs=25)


def test_sdiag_before_the_first_backfill() -> None:
    text = SDIAG.replace("\tLast cycle: 2500000\n", "")
    assert read_scheduler(text).backfill == 0


def test_invalid_sdiag_output_is_refused() -> None:
    with pytest.raises(ValueError, match="no thread count"):
        read_scheduler("slurm_get_statistics: Unable to contact slurm controller")


def test_ping() -> None:
    text = "Slurmctld(primary) at ctl is DOWN\nSlurmctld(backup1) at ctl2 is UP\nnonsense\n"
    assert controllers_up(text) == {"ctl": False, "ctl2": True}
    assert list(controllers_up(text)) == ["ctl", "ctl2"]
