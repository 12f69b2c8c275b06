"""What squeue, sdiag and scontrol ping say."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm_queue import (
    Job,
    Scheduler,
    controllers_up,
    read_jobs,
    read_scheduler,
)
from slurm_samples import SDIAG, job_record


def test_a_running_job() -> None:
    nodes = "gpu[1-2]"
    assert read_jobs(job_record(7, nodes=nodes)) == [
        Job("7", "running", "batch", "alice", "research", "None", 1000, 1060, 2, ("gpu1", "gpu2"), "train")
    ]


@pytest.mark.parametrize("name", ["", "a\nb", 'say "x"\\', "tab\tend ", "a\x1fb", "n\u00e4me", "{}", "\ufffd"])
def test_names_hold_anything(name: str) -> None:
    jobs = read_jobs(job_record(1, name=name) + job_record(2))
    assert [(job.number, job.name) for job in jobs] == [("1", name), ("2", "train")]


def test_a_name_with_the_end_of_a_record_harms_no_other_job() -> None:
    jobs = read_jobs(job_record(1, name="odd\x1ename") + job_record(2))
    assert [(job.number, job.name) for job in jobs] == [("1", "odd"), ("2", "train")]


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
def test_reasons_are_few(reason: str, word: str) -> None:
    assert read_jobs(job_record(reason=reason))[0].reason == word


def test_a_waiting_job() -> None:
    (job,) = read_jobs(
        job_record(state="PENDING", partition="a,b", start="N/A", eligible="Unknown", tres="N/A", nodes="")
    )
    assert (job.state, job.partition, job.start, job.eligible, job.gpus, job.nodes) == ("pending", "a", 0, 0, 0, ())


def test_no_jobs() -> None:
    assert read_jobs("\n") == []


def test_nonsense_is_no_empty_queue() -> None:
    with pytest.raises(ValueError, match="nothing that is a job: 'squeue: what'"):
        read_jobs("squeue: what")


def test_sdiag() -> None:
    assert read_scheduler(SDIAG) == Scheduler(cycle=0.0015, backfill=2.5, threads=3, dbd_queue=7, rpcs=25)


def test_sdiag_before_the_first_backfill() -> None:
    text = SDIAG.replace("\tLast cycle: 2500000\n", "")
    assert read_scheduler(text).backfill == 0


def test_nonsense_of_sdiag() -> None:
    with pytest.raises(ValueError, match="nothing of its threads"):
        read_scheduler("slurm_get_statistics: Unable to contact slurm controller")


def test_ping() -> None:
    text = "Slurmctld(primary) at ctl is DOWN\nSlurmctld(backup1) at ctl2 is UP\nnonsense\n"
    assert controllers_up(text) == {"ctl": False, "ctl2": True}
    assert list(controllers_up(text)) == ["ctl", "ctl2"]
