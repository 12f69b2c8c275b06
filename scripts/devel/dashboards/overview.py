"""The whole cluster on one page: what an operator looks at first in the morning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board, query_variable
from .panels import Column, bars, board_link, graph, query, stats, tabled
from .promql import OUT_OF_SERVICE, READY, VERDICTS, equal, of_cluster

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["STATE_COLOURS", "make"]

STATE_COLOURS = {
    "idle": "green",
    "mixed": "light-blue",
    "allocated": "blue",
    "planned": "semi-dark-green",
    "reserved": "purple",
    "maint": "yellow",
    "draining": "light-orange",
    "drained": "orange",
    "down": "red",
    "other": "text",
}
JOB_COLOURS = {"running": "blue", "pending": "yellow", "suspended": "purple", "completing": "green"}
PARTITION = 'partition=~"$partition"'
ANSWERS = {1: ("answers", "green"), 0: ("does not answer", "red")}
FINE_OR_BAD = ((0, "green"), (1, "red"))
DAY_S = 86400
IDLE_GPU = 0.05
IN_JOB = 'job!=""'


def make() -> Dashboard:
    """Return the dashboard."""
    return board(
        "overview",
        "Cluster overview",
        "Nodes, GPUs, queue, scheduler, alerts and the last validation of a cluster.",
        [
            ("Now", _now()),
            ("Nodes", _nodes()),
            ("GPUs and CPUs", _resources()),
            ("Queue", _queue()),
            ("Scheduler and accounting", _scheduler()),
        ],
        [query_variable("partition", "Partition", 'label_values(slurm:jobs:count{cluster=~"$cluster"}, partition)')],
    )


def _gpus(metric: str, *matchers: str) -> str:
    """Return one series for each GPU: one that several jobs share has a series for each of them."""
    return f"max by (node, gpu) ({of_cluster(metric, *matchers)})"


def _now() -> list[Placed]:
    nodes, validated = of_cluster("slurm:nodes:count"), of_cluster("busbar_validation_timestamp_seconds")
    firing = of_cluster("ALERTS", 'alertstate="firing"', 'severity=~"critical|warning"')
    used = f"sum({of_cluster('slurm:gpus:allocated')})"
    return [
        stats(
            "Nodes in service",
            "Nodes that take jobs (idle, mixed, allocated, reserved or planned), and all nodes that Slurm knows.",
            "none",
            query(f"sum({of_cluster('slurm:nodes:count', READY)})", "in service"),
            query(f"sum({nodes})", "all"),
        ),
        stats(
            "Nodes out of service",
            "Nodes that are down, drained, draining or in maintenance. Which ones, and why, is in the table below.",
            "none",
            query(f"sum({of_cluster('slurm:nodes:count', OUT_OF_SERVICE)}) or vector(0)"),
            steps=FINE_OR_BAD,
        ),
        stats(
            "GPUs in use",
            "GPUs that Slurm has given to jobs, of all that it knows. Whether the jobs use them is in the row on GPUs.",
            "percentunit",
            query(f"{used} / sum({of_cluster('slurm:gpus:total')})"),
            decimals=0,
        ),
        stats(
            "Jobs",
            "Jobs that run and jobs that wait, in the chosen partitions.",
            "none",
            query(
                f"sum({of_cluster('slurm:jobs:count', PARTITION, equal('state', 'running'))}) or vector(0)", "running"
            ),
            query(
                f"sum({of_cluster('slurm:jobs:count', PARTITION, equal('state', 'pending'))}) or vector(0)", "pending"
            ),
        ),
        stats(
            "Longest wait",
            "How long the oldest job that may start has been waiting.",
            "s",
            query(f"max({of_cluster('slurm:wait_seconds:max', PARTITION)}) or vector(0)"),
            steps=((0, "green"), (3600, "yellow"), (DAY_S, "red")),
            decimals=0,
        ),
        stats(
            "Alerts firing",
            "Alerts of severity critical or warning that fire now.",
            "none",
            query(f"count({firing}) or vector(0)"),
            steps=FINE_OR_BAD,
            link=board_link("monitoring"),
        ),
        stats(
            "Last validation",
            "Verdict of the last validation of the cluster's bandwidth.",
            "none",
            query(f"max({of_cluster('busbar_validation_verdict')})"),
            words=VERDICTS,
            link=board_link("validation"),
        ),
        stats(
            "Age of the validation",
            "How long ago the last validation began.",
            "s",
            query(f"time() - max({validated})"),
            steps=((0, "green"), (7 * DAY_S, "yellow"), (30 * DAY_S, "red")),
            decimals=0,
        ),
        stats(
            "slurmctld",
            "Whether Slurm's controller answers.",
            "none",
            query(f"min({of_cluster('slurm:up')})"),
            words=ANSWERS,
        ),
        stats(
            "slurmdbd",
            "Whether the accounting daemon answers.",
            "none",
            query(f"min({of_cluster('slurm:slurmdbd_up')})"),
            words=ANSWERS,
        ),
        stats(
            "Machines that answer",
            "Node exporters that the last scrape reached, and all that there should be.",
            "none",
            query(f"sum({of_cluster('up', equal('job', 'node'))})", "answer"),
            query(f"count({of_cluster('up', equal('job', 'node'))})", "all"),
        ),
        stats(
            "GPUs held idle",
            "GPUs that belong to a job and have computed next to nothing (below 5 %) for 15 minutes.",
            "none",
            query(
                f"count(max by (node, gpu) (max_over_time({of_cluster('gpu:utilization:ratio', IN_JOB)}[15m]))"
                f" < {IDLE_GPU})"
                f" or 0 * count({of_cluster('gpu:utilization:ratio')})"
            ),
            steps=((0, "green"), (1, "yellow")),
            link=board_link("gpu"),
        ),
    ]


def _nodes() -> list[Placed]:
    return [
        graph(
            "Nodes by state",
            "How many nodes are in which of Slurm's states.",
            "none",
            query(f"sum by (state) ({of_cluster('slurm:nodes:count')})", "{{state}}"),
            stacked=True,
            colours=STATE_COLOURS,
        ),
        tabled(
            "Nodes and their reasons",
            "Every node with its state and the reason that was given for it.",
            [f"max by (node, state, reason) ({of_cluster('slurm:node_state:info')})"],
            {
                "node": Column("Node", link=board_link("node", node="${__value.raw}"), width=140),
                "state": Column("State", width=120),
                "reason": Column("Reason"),
            },
            sort="reason",
        ),
    ]


def _resources() -> list[Placed]:
    return [
        graph(
            "GPUs allocated",
            "GPUs that Slurm has given to jobs, by type, and how many there are.",
            "none",
            query(f"sum by (type) ({of_cluster('slurm:gpus:allocated')})", "{{type}} allocated"),
            query(f"sum by (type) ({of_cluster('slurm:gpus:total')})", "{{type}} total"),
            dashed=("/ total$/",),
            width=8,
        ),
        graph(
            "GPUs at work",
            "What the GPUs that belong to jobs, and all GPUs, really do: mean of their utilisation.",
            "percentunit",
            query(f"avg({_gpus('gpu:utilization:ratio')})", "all"),
            query(f"avg({_gpus('gpu:utilization:ratio', IN_JOB)})", "in jobs"),
            high=1,
            width=8,
        ),
        graph(
            "CPUs allocated",
            "CPUs that Slurm has given to jobs, and how many there are.",
            "none",
            query(f"sum({of_cluster('slurm:cpus:allocated')})", "allocated"),
            query(f"sum({of_cluster('slurm:cpus:total')})", "total"),
            dashed=("/^total$/",),
            width=8,
        ),
        graph(
            "Power of the GPUs",
            "What all GPUs together draw.",
            "watt",
            query(f"sum({_gpus('gpu:power:watts')})", "GPUs"),
        ),
        bars(
            "GPUs by user",
            "The ten users with the most GPUs, and none where nobody has one.",
            "none",
            query(
                f"topk(10, sum by (user) ({of_cluster('slurm:user_gpus:allocated')}))"
                f" or sum({of_cluster('slurm:gpus:allocated')})",
                "{{user}}",
            ),
        ),
    ]


def _queue() -> list[Placed]:
    jobs = of_cluster("slurm:jobs:count", PARTITION)
    none = f"0 * sum({of_cluster('slurm:cpus:total')})"
    return [
        graph(
            "Jobs by state",
            "Jobs of the chosen partitions by state.",
            "none",
            query(f"sum by (state) ({jobs}) or {none}", "{{state}}"),
            stacked=True,
            colours=JOB_COLOURS,
            width=8,
        ),
        graph(
            "Waiting, by reason",
            "Jobs that wait, by the reason that Slurm gives. Resources and Priority are a full cluster; other reasons"
            " often wait for somebody.",
            "none",
            query(f"sum by (reason) ({of_cluster('slurm:jobs_pending:count', PARTITION)}) or {none}", "{{reason}}"),
            stacked=True,
            width=8,
        ),
        graph(
            "Waiting time",
            "How long the oldest job that may start has been waiting, and how long those that run had waited.",
            "s",
            query(
                f"max by (partition) ({of_cluster('slurm:wait_seconds:max', PARTITION)}) or {none}",
                "{{partition}} oldest",
            ),
            query(
                f"max by (partition) ({of_cluster('slurm:wait_seconds:mean', PARTITION)}) or {none}",
                "{{partition}} mean of running",
            ),
            width=8,
        ),
        tabled(
            "Running jobs",
            "Every job that runs. Its number leads to its nodes and GPUs.",
            [
                f"count by (job, user, account, partition, name) ({of_cluster('slurm:job:info', PARTITION)})",
            ],
            {
                "job": Column("Job", link=board_link("job", job="${__value.raw}"), width=90),
                "user": Column("User", width=120),
                "account": Column("Account", width=120),
                "partition": Column("Partition", width=120),
                "name": Column("Name"),
            },
            sort="job",
        ),
        tabled(
            "Jobs by user",
            "How many jobs each user has, by state.",
            [f"sum by (user, account, state) ({of_cluster('slurm:user_jobs:count')})"],
            {
                "user": Column("User"),
                "account": Column("Account"),
                "state": Column("State"),
                "Value": Column("Jobs", unit="none"),
            },
            sort="Value",
        ),
    ]


def _scheduler() -> list[Placed]:
    return [
        graph(
            "Scheduler's cycles",
            "How long the last cycle of the scheduler and of its backfill took. A growing one starts jobs late.",
            "s",
            query(of_cluster("slurm:scheduler_cycle_seconds:last"), "main"),
            query(of_cluster("slurm:backfill_cycle_seconds:last"), "backfill"),
            width=6,
        ),
        graph(
            "Requests to slurmctld",
            "Remote calls per second. A script that asks in a loop shows here.",
            "reqps",
            query(of_cluster("slurm:rpcs:rate5m"), "calls"),
            width=6,
        ),
        graph(
            "Threads and messages waiting",
            "Threads of slurmctld that are busy, and messages that wait for slurmdbd.",
            "none",
            query(of_cluster("slurm:scheduler_threads:count"), "threads of slurmctld"),
            query(of_cluster("slurm:slurmdbd_queue:count"), "messages for slurmdbd"),
            width=6,
        ),
        graph(
            "Accounting database",
            "Size of the accounting database on disk.",
            "bytes",
            query(of_cluster("slurm:database:bytes"), "database"),
            width=6,
        ),
    ]
