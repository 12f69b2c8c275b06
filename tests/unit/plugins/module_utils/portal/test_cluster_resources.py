"""Tests of the portal's parsers, with output of Slurm 24.11.5."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.portal.cluster_resources import (
    Job,
    end_reason,
    parse_accounts,
    parse_jobs,
    parse_partitions,
    usable,
)

PARTITIONS = (
    "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL Default=YES Hidden=NO MaxTime=1-12:00:00 State=UP\n"
    "PartitionName=big AllowGroups=physics,chem AllowAccounts=research Default=NO MaxTime=UNLIMITED State=UP\n"
    "PartitionName=old AllowGroups=ALL AllowAccounts=ALL Default=NO Hidden=NO MaxTime=30:00 State=DOWN\n"
    "PartitionName=secret AllowGroups=ALL AllowAccounts=ALL Default=NO Hidden=YES MaxTime=30:00 State=UP\n"
)


def row(*fields: str | int) -> str:
    widths = (128, 32, 12, 64, 512, 512)
    return "".join(f"{field:<{width}}" for field, width in zip(fields, widths, strict=True))


NODES = "\n".join(
    [
        row("batch", "idle", 2, "0/128/0/128", "gpu:h100:8(S:0-1)", "gpu:h100:0(IDX:N/A)"),
        row("batch", "mix", 1, "16/48/0/64", "gpu:h100:8(S:0-1)", "gpu:h100:3(IDX:0-2)"),
        row("batch", "drain", 1, "0/0/64/64", "gpu:h100:8(S:0-1)", "gpu:h100:0(IDX:N/A)"),
        row("batch", "idle*", 1, "0/64/0/64", "gpu:h100:8(S:0-1)", "gpu:h100:0(IDX:N/A)"),
        row("big", "idle", 1, "0/96/0/96", "gpu:a100:4,gpu:v100:2,nvme:1", "gpu:a100:0(IDX:N/A),gpu:v100:1(IDX:0)"),
    ]
)


def test_jobs_are_parsed_with_their_end_state() -> None:
    jobs = parse_jobs(
        "7|RUNNING|gpu1|None\n8|PENDING|n/a|Resources\n9|TIMEOUT|gpu2|TimeLimit\nslurm_load_jobs error: x\n"
    )
    assert jobs == {
        "7": Job("RUNNING", "gpu1", "None"),
        "8": Job("PENDING", "", "Resources"),
        "9": Job("TIMEOUT", "gpu2", "TimeLimit"),
    }
    assert (jobs["7"].is_running, jobs["8"].is_pending, jobs["9"].is_running or jobs["9"].is_pending) == (
        True,
        True,
        False,
    )
    assert end_reason(jobs["9"]) == "it reached its time limit: choose more hours"
    assert end_reason(Job("OUT_OF_MEMORY", "", "")) == "it ran out of memory: choose more"
    assert end_reason(Job("NEW_STATE", "", "")) == "its job state is NEW_STATE"
    assert end_reason(None) == "its job has left Slurm's queue"


def test_partitions_are_parsed_with_free_resources() -> None:
    batch, big = parse_partitions(PARTITIONS, NODES)
    assert (batch.name, batch.default, batch.max_minutes) == ("batch", True, 2160)
    assert (batch.gpus, batch.free_gpus, batch.most_gpus) == ({"h100": 40}, {"h100": 21}, 8)
    assert (batch.cpus, batch.free_cpus) == (320, 176)
    assert batch.nodes == {"idle": 2, "mixed": 1, "allocated": 0, "reserved": 0, "out": 2}
    assert (big.max_minutes, big.gpus, big.free_gpus) == (0, {"a100": 4, "v100": 2}, {"a100": 4, "v100": 1})
    with pytest.raises(ValueError, match="unpack"):
        parse_partitions(PARTITIONS, row("batch", "idle", 1, "64", "gpu:8", "gpu:0"))


def test_partitions_are_offered_only_to_allowed_users() -> None:
    found = parse_partitions(PARTITIONS, NODES)
    assert [one.name for one in usable(found, ["physics"], ["research"])] == ["batch", "big"]
    assert [one.name for one in usable(found, ["users"], ["research"])] == ["batch"]
    assert [one.name for one in usable(found, ["chem"], ["teaching"])] == ["batch"]
    assert [one.name for one in usable(found, ["chem"], [])] == ["batch", "big"]


def test_accounts_are_listed_with_the_default_first() -> None:
    assert parse_accounts("astro|research\nresearch|research\n") == ["research", "astro"]
    assert parse_accounts("") == []
