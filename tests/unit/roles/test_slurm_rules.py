"""Dashboards and alerts have the same series with busbar's collector alone and with Slurm's own endpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from promtool import promtool
from slurm_samples import MARKS, SDIAG, job_record, json_node

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[3]
RULES = TOP / "roles" / "prometheus" / "files" / "rules" / "slurm.yml"
NODES = read_json_nodes(
    {
        "nodes": [
            json_node("gpu1", state=["MIXED"], gres_used="gpu:h100:3(IDX:0-2)", alloc_cpus=8, alloc_memory=1024),
            json_node("gpu2", state=["IDLE", "DRAIN"], reason="ECC"),
        ]
    }
)
JOBS = read_jobs(job_record(7, nodes="gpu1") + job_record(8, state="PENDING", reason="Priority", nodes=""), MARKS)
# Metrics of slurmctld 25.11 for these nodes and SDIAG, by the names in its plugin metrics/openmetrics.
NATIVE = {
    'slurm_node_cpus_effective{node="gpu1"}': 96,
    'slurm_node_cpus_effective{node="gpu2"}': 96,
    'slurm_node_cpus_alloc{node="gpu1"}': 8,
    'slurm_node_cpus_alloc{node="gpu2"}': 0,
    'slurm_node_memory_bytes{node="gpu1"}': 2000000 << 20,
    'slurm_node_memory_bytes{node="gpu2"}': 2000000 << 20,
    'slurm_node_memory_alloc_bytes{node="gpu1"}': 1 << 30,
    'slurm_node_memory_alloc_bytes{node="gpu2"}': 0,
    "slurm_schedule_cycle_last": 1500,
    "slurm_bf_cycle_last": 2500000,
    "slurm_server_thread_cnt": 3,
    "slurm_slurmdbd_queue_size": 7,
}
EXPECTED: dict[str, float] = {
    "slurm:up": 1,
    'slurm:controller_up{controller="ctl"}': 1,
    "slurm:slurmdbd_up": 1,
    "slurm:slurmdbd_queue:count": 7,
    "slurm:scheduler_cycle_seconds:last": 0.0015,
    "slurm:backfill_cycle_seconds:last": 2.5,
    "slurm:scheduler_threads:count": 3,
    "slurm:cpus:total": 192,
    "slurm:cpus:allocated": 8,
    'slurm:node_cpus:total{node="gpu2"}': 96,
    'slurm:node_cpus:allocated{node="gpu1"}': 8,
    'slurm:node_memory:bytes{node="gpu1"}': 2000000 << 20,
    'slurm:node_memory_allocated:bytes{node="gpu1"}': 1 << 30,
    'slurm:gpus:total{type="h100"}': 16,
    'slurm:gpus:allocated{type="h100"}': 3,
    'slurm:node_gpus:total{node="gpu2"}': 8,
    'slurm:node_gpus:allocated{node="gpu1"}': 3,
    'slurm:nodes:count{state="drained"}': 1,
    'slurm:nodes:count{state="idle"}': 0,
    'slurm:node_state:info{node="gpu2",reason="ECC",state="drained"}': 1,
    'slurm:jobs:count{partition="batch",state="running"}': 1,
    'slurm:jobs_pending:count{partition="batch",reason="Priority"}': 1,
    'slurm:user_jobs:count{account="research",state="pending",user="alice"}': 1,
    'slurm:user_gpus:allocated{account="research",user="alice"}': 2,
    'slurm:wait_seconds:max{partition="batch"}': 500,
    'slurm:wait_seconds:mean{partition="batch"}': 60,
    'slurm:job:info{account="research",job="7",name="train",partition="batch",user="alice"}': 1,
    'slurm:job_node:info{job="7",node="gpu1"}': 1,
    "slurm:jobs_left_out:count": 0,
}


def collected(controller: str, *, native: bool) -> Iterator[tuple[str, float]]:
    """Yield the series of a controller's collector with the labels of its scrape."""
    families = [
        one("up", "", 1, controller=controller),
        one("slurmdbd_up", "", 1),
        *node_families(NODES, native=native),
        *job_families(JOBS, ["batch"], 1500),
        *job_series(JOBS, 100),
        *scheduler_families(read_scheduler(SDIAG), native=native),
    ]
    for family in families:
        for values, value in family.samples:
            own = dict(zip(family.labels, values, strict=True))
            # honor_labels: labels of the file take precedence.
            labels = {"instance": controller, "node": controller, "job": "node"} | own
            words = ",".join(f"{key}={json.dumps(text)}" for key, text in labels.items())
            yield f"busbar_slurm_{family.name}{{{words}}}", value


@pytest.mark.parametrize("source", ["collector", "openmetrics", "takeover"])
def test_series_do_not_depend_on_the_source(source: str, tmp_path: Path) -> None:
    given = dict(collected("ctl", native=source == "openmetrics"))
    if source == "openmetrics":
        given |= NATIVE
    if source == "takeover":
        # The last file of the old controller still exists while the new one reports the cluster.
        given |= {name: value for name, value in collected("ctl2", native=False) if "_up{" not in name}
    tests: dict[str, Any] = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": f"{value:.10f}x20"} for name, value in given.items()],
                "promql_expr_test": [
                    {"expr": name, "eval_time": "4m", "exp_samples": [{"labels": name, "value": value}]}
                    for name, value in EXPECTED.items()
                ],
            }
        ],
    }
    file = tmp_path / "slurm_test.yml"
    file.write_text(json.dumps(tests), encoding="utf-8")
    promtool("test", "rules", file)
