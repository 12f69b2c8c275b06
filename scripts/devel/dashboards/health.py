"""Health of the nodes: what the health check finds, whom it drained, and whether it looks at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board
from .panels import Column, board_link, graph, query, stats, tabled
from .promql import equal, of_cluster

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

FINDINGS = "busbar_node_health_findings"
FINE_OR_BAD = ((0, "green"), (1, "red"))
FINE_OR_ODD = ((0, "green"), (1, "yellow"))
SEVERITIES = {
    "ISOLATE": ("Nodes to be replaced (ISOLATE): what they have is not cured by a reset.", FINE_OR_BAD),
    "RESET": ("Nodes to be reset, rebooted or repaired (RESET).", FINE_OR_BAD),
    "MONITOR": ("Nodes with something that is only told (MONITOR); they take jobs.", FINE_OR_ODD),
}
NODE = Column("Node", link=board_link("node", node="${__value.raw}"), width=120)


def make() -> Dashboard:
    """Return the dashboard."""
    rows = [("Now", _now()), ("Findings", _findings()), ("The check itself", _check()), ("Jobs", _jobs())]
    description = "What the health check finds on the nodes, whom it drained, and jobs that make no progress."
    return board("health", "Node health", description, rows)


def _now() -> list[Placed]:
    panels = [
        stats(
            severity,
            words,
            "none",
            query(f"count(count by (node) ({of_cluster(FINDINGS, equal('severity', severity))} > 0)) or vector(0)"),
            steps=steps,
        )
        for severity, (words, steps) in SEVERITIES.items()
    ]
    late = of_cluster("busbar_node_health_last_run_timestamp_seconds")
    interval = of_cluster("busbar_node_health_interval_seconds")
    return [
        *panels,
        stats(
            "Not drained, too many are",
            "Nodes that should be drained and are not, since node_health_drain_percent of them are drained already.",
            "none",
            query(f"sum(max by (node) ({of_cluster('busbar_node_health_drain_withheld')})) or vector(0)"),
            steps=FINE_OR_BAD,
        ),
        stats(
            "Not looked at",
            "Nodes that were last looked at more than three intervals ago, where Slurm always runs the check.",
            "none",
            query(f"count(max by (node) (time() - {late} > 3 * {interval} and {interval} > 0)) or vector(0)"),
            steps=FINE_OR_BAD,
        ),
        stats(
            "Checks without an answer",
            "Checks that learned nothing on some node: a fault there would not be seen.",
            "none",
            query(f"count(max by (node, check) ({of_cluster('busbar_node_health_unknown')} == 1)) or vector(0)"),
            steps=FINE_OR_ODD,
        ),
    ]


def _findings() -> list[Placed]:
    drained = of_cluster("slurm:node_state:info", 'reason=~"busbar.*"')
    return [
        tabled(
            "What is wrong",
            "Findings of the last look at each node; `busbar health NODE` says more, and what to type.",
            [f"max by (node, check, severity) ({of_cluster(FINDINGS)} > 0)"],
            {"node": NODE, "severity": Column("Severity", width=110), "check": Column("Check")},
            sort="severity",
            descending=False,
        ),
        tabled(
            "Drained by busbar",
            "Nodes that busbar took out of service: the health check, a validation that failed, an update, new nodes.",
            [f"max by (node, state, reason) ({drained})"],
            {"node": NODE, "state": Column("State", width=110), "reason": Column("Reason")},
            sort="node",
            descending=False,
        ),
        graph(
            "Findings by check",
            "Nodes with a finding, by check. Many at once are rarely their own hardware: a switch, a server, a limit.",
            "none",
            query(f"count by (check) (max by (node, check) ({of_cluster(FINDINGS)} > 0))", "{{check}}"),
            stacked=True,
            width=24,
        ),
    ]


def _check() -> list[Placed]:
    took = of_cluster("busbar_node_health_run_seconds")
    return [
        graph(
            "How long a look takes",
            "Slowest and median node. Slurm ends the check after 60 s.",
            "s",
            query(f"max(max by (node) ({took}))", "slowest"),
            query(f"quantile(0.5, max by (node) ({took}))", "median"),
            steps=((0, "green"), (60, "red")),
        ),
        tabled(
            "Checks without an answer",
            "What does not answer or is not understood there; `busbar health NODE` says why.",
            [f"max by (node, check) ({of_cluster('busbar_node_health_unknown')} == 1)"],
            {"node": NODE, "check": Column("Check")},
            sort="node",
            descending=False,
        ),
    ]


def _jobs() -> list[Placed]:
    stalled = of_cluster("ALERTS", equal("alertname", "JobStalled"), equal("alertstate", "firing"))
    return [
        tabled(
            "Stalled jobs",
            "Jobs whose GPUs are busy all the time and draw little, as while a collective waits for a rank.",
            [f"max by (job, user, account, partition) ({stalled})"],
            {
                "job": Column("Job", link=board_link("job", job="${__value.raw}"), width=100),
                "user": Column("User"),
                "account": Column("Account"),
                "partition": Column("Partition"),
            },
            sort="job",
            width=24,
            height=6,
        ),
    ]
