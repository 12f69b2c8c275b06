"""Monitoring itself: alerts, targets, how fresh the numbers are, and what Prometheus keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board
from .panels import Column, board_link, graph, query, stats, tabled
from .promql import equal, of_cluster, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

FINE_OR_BAD = ((0, "green"), (1, "red"))
ANSWERS = {1: ("up", "green"), 0: ("down", "red")}
DAY_S = 86400
# Watchdog fires always: whoever no longer gets it knows that the way of alerts is cut.
FIRING = equal("alertstate", "firing") + ',alertname!="Watchdog"'


def make() -> Dashboard:
    """Return the dashboard."""
    rows = [("Alerts", _alerts()), ("Targets", _targets()), ("Freshness", _fresh()), ("Prometheus", _prometheus())]
    description = "Alerts that fire, targets, scrape times, how fresh the numbers are, and what Prometheus keeps."
    return board("monitoring", "Monitoring", description, rows)


def _alerts() -> list[Placed]:
    firing = of_cluster("ALERTS", FIRING)
    sent, failed = (of_cluster(f"alertmanager_notifications_{name}") for name in ("total", "failed_total"))
    return [
        stats(
            "Firing",
            "Alerts that fire now, by severity.",
            "none",
            *[
                query(f"count({of_cluster('ALERTS', FIRING, equal('severity', name))}) or vector(0)", name)
                for name in ("critical", "warning", "info")
            ],
            steps=FINE_OR_BAD,
            width=6,
            height=8,
        ),
        tabled(
            "Alerts that fire",
            "Every alert that fires, with the node that it is about. What to do stands in the alert's own text.",
            [f"count by (alertname, severity, node) ({firing})"],
            {
                "alertname": Column("Alert"),
                "severity": Column("Severity", width=110),
                "node": Column("Node", link=board_link("node", node="${__value.raw}"), width=140),
                "Value": Column("Number", unit="none", width=90),
            },
            sort="severity",
            descending=False,
            width=10,
        ),
        graph(
            "Notifications",
            "What Alertmanager sends to receivers, and what it could not deliver, by their kind.",
            "cps",
            query(f"sum({rate(sent)})", "sent"),
            query(f"sum by (integration) ({rate(failed)}) > 0 or sum({rate(failed)})", "failed {{integration}}"),
            width=8,
        ),
    ]


def _targets() -> list[Placed]:
    up, took = of_cluster("up"), of_cluster("scrape_duration_seconds")
    return [
        stats(
            "Targets down",
            "Targets that the last scrape did not reach.",
            "none",
            query(f"count({up} == 0) or 0 * count({up})"),
            steps=FINE_OR_BAD,
            height=8,
        ),
        graph(
            "Targets that answer",
            "How many targets of each job answered.",
            "none",
            query(f"sum by (job) ({up})", "{{job}}"),
            query(f"count by (job) ({up})", "{{job}} all"),
            dashed=("/ all$/",),
            width=10,
        ),
        graph(
            "Scrape time",
            "How long the slowest scrape of each job takes.",
            "s",
            query(f"max by (job) ({took})", "{{job}}"),
            width=10,
        ),
        tabled(
            "Targets",
            "Every target with its last scrape.",
            [
                f"min by (job, node, instance) ({up})",
                f"max by (job, node, instance) ({took})",
                f"max by (job, node, instance) ({of_cluster('scrape_samples_scraped')})",
            ],
            {
                "job": Column("Job"),
                "node": Column("Node", link=board_link("node", node="${__value.raw}")),
                "instance": Column("Instance"),
                "Value #A": Column("State", words=ANSWERS),
                "Value #B": Column("Scrape time", unit="s"),
                "Value #C": Column("Samples", unit="none"),
            },
            sort="Value #A",
            descending=False,
            width=24,
        ),
    ]


def _fresh() -> list[Placed]:
    age = f"time() - {of_cluster('node_textfile_mtime_seconds')}"
    expiry = of_cluster("busbar_certificate_not_after_timestamp_seconds")
    return [
        graph(
            "Age of Slurm's numbers",
            "How old what Slurm's collector wrote is. Growing means that it has stopped.",
            "s",
            query(f"max({of_cluster('slurm:metrics_age_seconds')})", "Slurm"),
            steps=((0, "green"), (120, "yellow"), (300, "red")),
            width=8,
        ),
        graph(
            "Age of text files",
            "How old the files are that node exporter reads, by node and file. Facts of the inventory may be old.",
            "s",
            query(f"max by (node, file) ({age})", "{{node}} {{file}}"),
            width=8,
        ),
        graph(
            "Certificates last for",
            "How long each certificate of the cluster's own authority is still good.",
            "s",
            query(f"min by (node, path) ({expiry}) - time()", "{{node}} {{path}}"),
            steps=((0, "red"), (7 * DAY_S, "yellow"), (30 * DAY_S, "green")),
            width=8,
        ),
    ]


def _prometheus() -> list[Placed]:
    return [
        stats(
            "Configuration",
            "Whether Prometheus took its last configuration.",
            "none",
            query(f"min({of_cluster('prometheus_config_last_reload_successful')})"),
            words={1: ("in force", "green"), 0: ("refused", "red")},
            height=8,
        ),
        stats(
            "Rules that fail",
            "Evaluations of rules that failed in the last hour.",
            "none",
            query(f"sum(increase({of_cluster('prometheus_rule_evaluation_failures_total')}[1h]))"),
            steps=FINE_OR_BAD,
            decimals=0,
            height=8,
        ),
        graph(
            "Series",
            "Series that Prometheus holds in memory.",
            "none",
            query(f"sum by (instance) ({of_cluster('prometheus_tsdb_head_series')})", "{{instance}}"),
            width=8,
        ),
        graph(
            "Samples",
            "Samples that Prometheus takes in.",
            "cps",
            query(
                f"sum by (instance) ({rate(of_cluster('prometheus_tsdb_head_samples_appended_total'))})", "{{instance}}"
            ),
            width=8,
        ),
        graph(
            "Storage",
            "What Prometheus keeps on disk.",
            "bytes",
            query(f"sum by (instance) ({of_cluster('prometheus_tsdb_storage_blocks_bytes')})", "{{instance}}"),
            width=12,
        ),
        graph(
            "Rules: time of an evaluation",
            "How long the slowest group of rules takes. It must stay below the interval of evaluation.",
            "s",
            query(
                f"max by (rule_group) ({of_cluster('prometheus_rule_group_last_duration_seconds')})", "{{rule_group}}"
            ),
            width=12,
        ),
    ]
