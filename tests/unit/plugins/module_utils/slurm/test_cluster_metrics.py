"""Tests of the Slurm metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.cluster_metrics import (
    job_families,
    job_series,
    node_families,
    one,
    scheduler_families,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scontrol_nodes import read_json_nodes
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.squeue import read_jobs, read_scheduler
from ansible_collections.busbar.cluster.roles.slurm_metrics.files.slurm_metrics import MetricFamilies
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from slurm_samples import MARKS, SDIAG, job_record, json_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.busbar.cluster.plugins.module_utils.slurm.cluster_metrics import Family

NODES = read_json_nodes(
    {
        "nodes": [
            json_node("gpu1", state=["MIXED"], gres_used="gpu:h100:3(IDX:0-2)", alloc_cpus=8, alloc_memory=10),
            json_node("gpu2", state=["IDLE", "DRAIN"], reason='fan "3"\\\nbroke'),
            json_node("cpu1", gres="", gres_used="gpu:0"),
        ]
    }
)


def samples(families: Sequence[Family]) -> dict[str, dict[tuple[str, ...], float]]:
    return {family.name: dict(family.samples) for family in families}


def test_nodes() -> None:
    found = samples(node_families(NODES))
    assert {key: value for key, value in found["nodes"].items() if value} == {
        ("mixed",): 1,
        ("drained",): 1,
        ("idle",): 1,
    }
    assert len(found["nodes"]) == 10
    assert found["gpus"] == {("h100",): 16}
    assert found["gpus_allocated"] == {("h100",): 3}
    assert found["node_gpus"] == {("gpu1",): 8, ("gpu2",): 8, ("cpu1",): 0}
    assert found["node_gpus_allocated"] == {("gpu1",): 3, ("gpu2",): 0, ("cpu1",): 0}
    assert found["node_memory_allocated_bytes"]["gpu1",] == 10 << 20
    assert ("gpu2", "drained", 'fan "3"\\ broke') in found["node_state_info"]


def test_metrics_native_to_slurmctld_are_omitted() -> None:
    both = {family.name for family in node_families(NODES)} - {f.name for f in node_families(NODES, native=True)}
    assert both == {"node_cpus", "node_cpus_allocated", "node_memory_bytes", "node_memory_allocated_bytes"}
    scheduler = read_scheduler(SDIAG)
    assert [family.name for family in scheduler_families(scheduler, native=True)] == ["rpcs"]
    assert len(scheduler_families(scheduler)) == 5


def test_the_queue() -> None:
    waiting = {"state": "PENDING", "start": "N/A", "tres": "N/A", "nodes": ""}
    text = (
        job_record(1, start=1060)
        + job_record(2, start=1020, user="bob", tres="cpu=1,gres/gpu=4")
        + job_record(3, reason="Resources", eligible=1100, **waiting)
        + job_record(4, reason="Priority", eligible=1200, **waiting)
        + job_record(5, reason="JobHeldUser", eligible="N/A", **waiting)
        + job_record(6, reason="BeginTime", eligible=5000, **waiting)
        + job_record(7, state="COMPLETING", partition="long")
    )
    found = samples(job_families(read_jobs(text, MARKS), ["batch", "empty"], now=1500.0))
    assert found["jobs"] == {
        ("batch", "running"): 2,
        ("batch", "pending"): 4,
        ("long", "completing"): 1,
        ("long", "running"): 0,
        ("long", "pending"): 0,
        ("empty", "running"): 0,
        ("empty", "pending"): 0,
    }
    assert found["jobs_pending"]["batch", "JobHeldUser"] == 1
    assert found["user_jobs"]["alice", "research", "pending"] == 4
    assert found["user_gpus_allocated"] == {("alice", "research"): 2, ("bob", "research"): 4}
    # Held jobs and jobs with a later start time do not count as waiting.
    assert found["wait_seconds_max"] == {("batch",): 400, ("empty",): 0, ("long",): 0}
    assert found["wait_seconds_mean"] == {("batch",): 40}


def test_number_of_job_series_is_limited_and_the_omitted_are_counted() -> None:
    jobs = read_jobs(
        "".join(job_record(number, tres=f"gres/gpu={number}", nodes=f"gpu[1-{number}]") for number in range(1, 5)),
        MARKS,
    )
    found = samples(job_series(jobs, limit=7))
    # Jobs with most GPUs come first: 4 + 3 nodes use the limit of 7.
    assert [key[0] for key in found["job_info"]] == ["4", "3"]
    assert len(found["job_node_info"]) == 7
    assert found["jobs_left_out"] == {(): 2}
    assert samples(job_series(jobs, limit=100))["jobs_left_out"] == {(): 0}


@pytest.mark.parametrize("name", ["plain", 'quote " and \\ and {}', "line\nbreak", "bell\x07", "n\u00e4me", "x" * 1000])
def test_any_name_survives_the_exposition(name: str) -> None:
    registry = CollectorRegistry(auto_describe=False)
    jobs = read_jobs(job_record(1, name=name), MARKS)
    registry.register(MetricFamilies([*job_series(jobs, 10), one("up", "Up.", 1, controller="c")]))
    text = generate_latest(registry).decode()
    (info,) = (family for family in text_string_to_metric_families(text) if family.name == "busbar_slurm_job_info")
    expected = "".join(char if char.isprintable() else " " for char in name)[:200]
    assert info.samples[0].labels["name"] == expected
    assert 'busbar_slurm_up{controller="c"} 1.0' in text
