"""One job: who runs it, on which nodes, and whether it uses the GPUs that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board, query_variable
from .panels import Column, board_link, graph, query, stats, tabled
from .promql import ETHERNET, RATE, of_cluster

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

JOB = 'job="$job"'
NAME = "{{node}} GPU {{gpu}}"
# The time shown, so that a job that has ended is found as well.
SHOWN = "[$__range]"


def make() -> Dashboard:
    """Return the dashboard."""
    jobs = query_variable("job", "Job", 'label_values(slurm:job:info{cluster=~"$cluster"}, job)', several=False)
    rows = [("The job", _who()), ("Its GPUs", _gpus()), ("Its nodes", _nodes())]
    description = "Who runs a job, on which nodes, and what its GPUs, CPUs and network do. Nodes may be shared."
    return board("job", "Job", description, rows, [jobs])


def _of(metric: str) -> str:
    return of_cluster(metric, JOB)


def _here(expr: str) -> str:
    """Return the part of an expression (by node) that belongs to the nodes of the job, while it ran there."""
    return f"{expr} and on (node) {_of('slurm:job_node:info')}"


def _who() -> list[Placed]:
    busy = of_cluster("gpu:utilization:ratio", JOB)
    return [
        tabled(
            "Job",
            "Whose job it is, in the time shown.",
            [
                f"max by (job, user, account, partition, name) (last_over_time({_of('slurm:job:info')}{SHOWN}))",
            ],
            {
                "job": Column("Job"),
                "user": Column("User"),
                "account": Column("Account"),
                "partition": Column("Partition"),
                "name": Column("Name"),
            },
            height=4,
        ),
        stats(
            "Nodes",
            "Nodes on which the job ran in the time shown.",
            "none",
            query(f"count(last_over_time({_of('slurm:job_node:info')}{SHOWN}))"),
            width=3,
        ),
        stats(
            "GPUs",
            "GPUs that the job had in the time shown.",
            "none",
            query(f"count(count by (node, gpu) (last_over_time({busy}{SHOWN})))"),
            width=3,
        ),
        stats(
            "Utilisation",
            "Mean utilisation of its GPUs in the time shown. Far below 100 % is a job that waits for something.",
            "percentunit",
            query(f"avg(avg_over_time({busy}{SHOWN}))"),
            steps=((0, "red"), (0.3, "yellow"), (0.6, "green")),
            decimals=0,
            width=3,
        ),
        stats(
            "Power",
            "What its GPUs drew together, in the mean of the time shown.",
            "watt",
            query(f"sum(avg_over_time({of_cluster('gpu:power:watts', JOB)}{SHOWN}))"),
            width=3,
        ),
        tabled(
            "Which nodes",
            "The nodes of the job in the time shown.",
            [f"max by (node) (last_over_time({_of('slurm:job_node:info')}{SHOWN}))"],
            {"node": Column("Node", link=board_link("node", node="${__value.raw}"))},
            width=6,
            sort="node",
            descending=False,
        ),
        graph(
            "Slowest and fastest GPU",
            "Utilisation of the least and the most busy of its GPUs. A gap is one rank for which the others wait.",
            "percentunit",
            query(f"min({busy})", "least busy"),
            query(f"avg({busy})", "mean"),
            query(f"max({busy})", "busiest"),
            high=1,
            width=18,
        ),
    ]


def _gpus() -> list[Placed]:
    drawn = [
        ("Utilisation", "Share of time in which a kernel ran, by GPU.", "percentunit", "gpu:utilization:ratio", 1),
        ("Tensor cores", "Share of cycles in which they worked, by GPU.", "percentunit", "gpu:tensor_active:ratio", 1),
        ("Memory", "Memory in use, by GPU.", "bytes", "gpu:memory_used:bytes", None),
        ("Power", "What each GPU draws.", "watt", "gpu:power:watts", None),
        ("Temperature", "Temperature of each GPU.", "celsius", "gpu:temperature:celsius", None),
        ("NVLink", "What goes over NVLink, by GPU.", "Bps", "gpu:nvlink:bytes_per_second", None),
    ]
    return [
        graph(title, words, unit, query(f"max by (node, gpu) ({_of(metric)})", NAME), high=high, width=8)
        for title, words, unit, metric, high in drawn
    ]


def _nodes() -> list[Placed]:
    busy = of_cluster("node_cpu_seconds_total", 'mode="idle"')
    total, free = of_cluster("node_memory_MemTotal_bytes"), of_cluster("node_memory_MemAvailable_bytes")
    received = of_cluster("node_network_receive_bytes_total", ETHERNET)
    return [
        graph(
            "CPU",
            "Share of the CPUs of its nodes that is busy, other jobs' too.",
            "percentunit",
            query(_here(f"1 - avg by (node) (rate({busy}{RATE}))"), "{{node}}"),
            high=1,
            width=8,
        ),
        graph(
            "Memory",
            "Memory in use on its nodes, other jobs' too.",
            "bytes",
            query(_here(f"sum by (node) ({total} - {free})"), "{{node}}"),
            width=8,
        ),
        graph(
            "Network",
            "What comes in over Ethernet on its nodes.",
            "Bps",
            query(_here(f"sum by (node) (rate({received}{RATE}))"), "{{node}}"),
            width=8,
        ),
    ]
