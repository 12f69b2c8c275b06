"""Tests of the portal's list of a user's jobs, with output of Slurm 24.11.5."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.user_jobs import (
    MOST_ENDED,
    ended_command,
    parse_ended,
    parse_queue,
    queue_command,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.squeue import Marks

MARKS = Marks("\x1fabc", "\x1eabc")
HOSTILE = "<script>alert(1)</script>\n5|alice|\x1f\x1e" + "x" * 200


def queued(*fields: str) -> str:
    return MARKS.field.join(fields) + MARKS.record + "\n"


def ended(*rows: tuple[str, ...]) -> str:
    return "".join(MARKS.field.join(row) + "\n" for row in rows)


TRES = "billing=2,cpu=2,gres/gpu:sim=2,gres/gpu=2,mem=2048M,node=2"
QUEUE = queued(
    *("12", "12", "RUNNING", "batch", "alice", "None", "4:49", "1795578245", TRES, "gpu[1-2]", HOSTILE)
) + queued(*("14", "14_[2-9]", "PENDING", "batch,big", "bob", "Resources", "INVALID", "N/A", "cpu=1", "", "sweep"))


def job(
    number: str, state: str = "COMPLETED", *, end: str = "1795578263", name: str = "train", cpu: str = "00:09.000"
) -> tuple[str, ...]:
    return (number, number, state, name, "batch", "18", "1", cpu, "", "cpu=1,gres/gpu=1,mem=1024M,node=1", "", end)


def step(number: str, used: str, *, state: str = "COMPLETED", tasks: str = "1") -> tuple[str, ...]:
    return (number, number, state, "python3", "", "17", "1", "00:01.000", tasks, "cpu=1,mem=1024M,node=1", used, "")


def one(*rows: tuple[str, ...]) -> dict[str, Any]:
    (found,) = parse_ended(ended(*rows), MARKS)
    return found


def test_queue_is_grouped_by_user_and_hostile_names_are_one_line() -> None:
    found = parse_queue(QUEUE, MARKS)
    assert sorted(found) == ["alice", "bob"]
    (running,), (waiting,) = found["alice"], found["bob"]
    assert running["name"].startswith("<script>alert(1)</script> 5|alice|  xxx")
    assert (len(running["name"]), running["gpus"], running["nodes"], running["left"]) == (120, 2, "gpu[1-2]", "4:49")
    assert (waiting["number"], waiting["raw"], waiting["left"], waiting["start"]) == ("14_[2-9]", "14", "INVALID", 0)
    assert parse_queue("", MARKS) == {}
    for bad in (QUEUE + "rest", queued("12", "RUNNING"), QUEUE.replace("12\x1fabc", "x\x1fabc", 1)):
        with pytest.raises(ValueError, match="invalid job line"):
            parse_queue(bad, MARKS)


def test_commands_contain_only_the_name_of_a_user() -> None:
    assert queue_command(MARKS)[:2] == ["squeue", "--noheader"]
    assert [word for word in ended_command(MARKS, "alice", 3) if "alice" in word or "days" in word] == [
        "--user=alice",
        "--starttime=now-3days",
    ]


def test_used_and_allocated_resources_of_a_job() -> None:
    found = one(
        job("4"),
        step("4.batch", "cpu=00:00:00,energy=0,mem=4849664,vmem=4096"),
        step("4.0", "cpu=00:00:01,mem=268435456,gres/gpuutil=40,gres/gpumem=1G", tasks="2"),
    )
    assert (found["cpu"], found["memory"], found["gpu"], found["gpus"]) == (0.5, 0.5, 0.4, 1)
    assert (found["seconds"], found["end"], found["state"]) == (18, 1795578263, "COMPLETED")
    assert one(job("4", cpu="1-00:00:18.500"))["cpu"] == 1
    nothing = one(job("4", cpu="00:00:00"))
    assert (nothing["cpu"], nothing["memory"], nothing["gpu"]) == (None, None, None)


def test_out_of_memory_step_sets_the_state_of_the_job() -> None:
    assert one(job("4", "FAILED"), step("4.0", "", state="OUT_OF_MEMORY"))["state"] == "OUT_OF_MEMORY"
    assert one(job("4", "CANCELLED by 2001"))["state"] == "CANCELLED"


def test_last_ended_jobs_come_first_and_running_ones_are_left_out() -> None:
    rows = [job(str(number), end=str(1000 + number), name=HOSTILE) for number in range(1, MOST_ENDED + 20)]
    found = parse_ended(ended(*rows, job("999", "RUNNING", end="Unknown")), MARKS)
    assert (len(found), found[0]["number"], found[-1]["number"]) == (MOST_ENDED, "119", "20")
    assert "\n" not in found[0]["name"]
    # Requeued: the ended run is listed in addition to the current one.
    assert parse_ended(ended(job("5", "NODE_FAIL"), job("5", "RUNNING", end="Unknown")), MARKS) == []
    assert parse_ended("", MARKS) == []
    for bad in ("sacct: error\n", ended(job("4")[:-1])):
        with pytest.raises(ValueError, match="invalid job line"):
            parse_ended(bad, MARKS)
