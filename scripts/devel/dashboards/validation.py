"""Validation: is the cluster still as fast as its hardware should be, and which node is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .board import board, node_variable, query_variable
from .panels import Column, board_link, graph, query, stats, tabled, timeline
from .promql import VERDICTS, of_cluster, of_node

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from .panels import Placed

__all__ = ["make"]

STAGE = 'stage=~"$stage"'
BY = "node, stage, collective"
DAY_S = 86400
FINE_OR_BAD = ((0, "green"), (1, "red"))
NAME = "{{node}} {{stage}} {{collective}}"


def make() -> Dashboard:
    """Return the dashboard."""
    stages = query_variable("stage", "Stage", 'label_values(busbar_node_verdict{cluster=~"$cluster"}, stage)')
    rows = [("Last validation", _last()), ("Bandwidth over time", _bandwidth()), ("Nodes and tests", _details())]
    description = "Bus bandwidth of every node and stage over time against floor and ceiling, and the last verdicts."
    variables = [node_variable("busbar_node_verdict"), stages]
    return board("validation", "Validation", description, rows, variables, since="now-30d")


def _last() -> list[Placed]:
    tests = of_cluster("busbar_validation_tests")
    return [
        stats(
            "Verdict",
            "Verdict of the last validation. INCONCLUSIVE means that something could not be measured.",
            "none",
            query(f"max({of_cluster('busbar_validation_verdict')})"),
            words=VERDICTS,
            width=5,
        ),
        stats(
            "Age",
            "How long ago it began.",
            "s",
            query(f"time() - max({of_cluster('busbar_validation_timestamp_seconds')})"),
            steps=((0, "green"), (7 * DAY_S, "yellow"), (30 * DAY_S, "red")),
            decimals=0,
            width=4,
        ),
        stats(
            "Tests by verdict",
            "How many tests of the last validation ended how.",
            "none",
            query(f"sum by (verdict) ({tests})", "{{verdict}}"),
            query(f"sum({tests})", "all"),
            width=7,
        ),
        stats(
            "Nodes that fail",
            "Nodes that failed in a stage of the last validation.",
            "none",
            query(
                f"count(max by (node) ({of_node('busbar_node_verdict', STAGE)} == 1))"
                f" or 0 * count({of_node('busbar_node_verdict', STAGE)})"
            ),
            steps=FINE_OR_BAD,
        ),
        stats(
            "Nodes left out",
            "Nodes that were to be tested and were not, such as those that are out of service.",
            "none",
            query(f"sum({of_cluster('busbar_validation_nodes_left_out')})"),
            steps=((0, "green"), (1, "yellow")),
        ),
    ]


def _bandwidth() -> list[Placed]:
    measured = of_node("busbar_node_busbw_bytes_per_second", STAGE)
    floor, ceiling = (of_node(f"busbar_node_{name}_bytes_per_second", STAGE) for name in ("floor", "ceiling"))
    return [
        graph(
            "Bus bandwidth by node and stage",
            "Median of what the tests of a stage with that node reached, the floor that it must reach, and the ceiling"
            " that the links allow. A slow decline is a link about to fail.",
            "Bps",
            query(f"max by ({BY}) ({measured})", NAME),
            query(f"max by (stage, collective) ({floor})", "floor {{stage}} {{collective}}"),
            query(f"min by (stage, collective) ({ceiling})", "ceiling {{stage}} {{collective}}"),
            dashed=("/^(floor|ceiling) /",),
            width=24,
            height=10,
        ),
        graph(
            "Share of the ceiling",
            "What each node reached of what its links allow: comparable across kinds of hardware.",
            "percentunit",
            query(f"max by ({BY}) ({measured}) / max by ({BY}) ({ceiling})", NAME),
        ),
        graph(
            "Above the floor by",
            "Room between what each node reached and its floor. Below 0 the node fails.",
            "percentunit",
            query(f"max by ({BY}) ({measured}) / max by ({BY}) ({floor}) - 1", NAME),
            low=None,
            steps=((0, "red"), (0.0001, "yellow"), (0.05, "green")),
        ),
    ]


def _details() -> list[Placed]:
    verdict = Column("Verdict", words=VERDICTS, width=130)
    node = Column("Node", link=board_link("node", node="${__value.raw}"))
    measured = of_node("busbar_node_busbw_bytes_per_second", STAGE)
    return [
        timeline(
            "Verdicts over time",
            "When which node had which verdict, by stage.",
            query(f"max by (node, stage) ({of_node('busbar_node_verdict', STAGE)})", "{{node}} {{stage}}"),
            words=VERDICTS,
        ),
        tabled(
            "Last verdict by node",
            "Every node with the verdict of each stage, what it reached, and what it had to.",
            [
                f"max by ({BY}) ({of_node('busbar_node_verdict', STAGE)})",
                f"max by ({BY}) ({measured})",
                f"max by ({BY}) ({of_node('busbar_node_floor_bytes_per_second', STAGE)})",
                f"max by ({BY}) ({of_node('busbar_node_ceiling_bytes_per_second', STAGE)})",
            ],
            {
                "node": node,
                "stage": Column("Stage", width=100),
                "collective": Column("Collective", width=140),
                "Value #A": verdict,
                "Value #B": Column("Reached", unit="Bps"),
                "Value #C": Column("Floor", unit="Bps"),
                "Value #D": Column("Ceiling", unit="Bps"),
            },
            sort="Value #A",
        ),
        tabled(
            "Tests",
            "Every test of the last validation with its nodes.",
            [
                f"max by (test, stage, collective, nodes) ({of_cluster('busbar_test_verdict', STAGE)})",
                f"max by (test, stage, collective, nodes) ({of_cluster('busbar_test_busbw_bytes_per_second', STAGE)})",
            ],
            {
                "test": Column("Test"),
                "stage": Column("Stage", width=90),
                "nodes": Column("Nodes"),
                "Value #A": verdict,
                "Value #B": Column("Reached", unit="Bps"),
            },
            sort="Value #A",
        ),
    ]
