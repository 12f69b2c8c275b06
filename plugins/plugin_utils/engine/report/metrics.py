# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Convert a validation report to Prometheus' text format, for the textfile collector of node exporter.

The values of a node come from the latest validation that tested it, because a validation may cover only some nodes.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ..common.hostlist import fold_hosts
from ..validation.collectives.cluster_stage import Cluster
from ..validation.collectives.culprit_search_stage import Pair
from ..validation.result_presentation import CODE_WORDS, CODES
from ..validation.stage_registry import stage_of
from .history import node_figures
from .report_reader import VERDICTS, counts, everyone
from .report_types import NodeFigure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ..validation.result_presentation import Metric
    from .report_types import ReadReport, ReadTest

_GB = 1e9
_FIGURES: tuple[tuple[str, str, Callable[[LastFigure], float | None]], ...] = (
    ("busbw", "Bus bandwidth", lambda figure: figure["busbw"]),
    ("floor", "Minimum bandwidth", lambda figure: figure["floor"]),
    ("ceiling", "Maximum bandwidth of this hardware", lambda figure: figure["ceiling"]),
)


def _escaped(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _sample(name: str, labels: dict[str, object], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(item)}"' for key, item in labels.items())
    return f"{name}{{{inside}}} {value:.10g}"


def _family(name: str, help_text: str, samples: list[tuple[dict[str, object], float | None]]) -> list[str]:
    lines = [_sample(name, labels, value) for labels, value in samples if value is not None]
    return [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *dict.fromkeys(lines)] if lines else []


def metrics(report: ReadReport, earlier: Iterable[ReadReport] = (), nodes: Collection[str] | None = None) -> str:
    """Return the verdict of the validation and of each test, and the latest values of each node and stage.

    Bandwidths are in bytes per second; verdicts are busbar's exit codes.

    Args:
        report: a normalised report.
        earlier: older reports, the oldest first, for nodes that this report does not contain.
        nodes: the nodes of the cluster, to which the result is limited; None for all.
    """
    reports = past(report, earlier)
    cluster: dict[str, object] = {"cluster": report["cluster"]}
    tests = [(cluster | _labels(test), test) for test in distinct(report["tests"])]
    figures = [
        (cluster | {key: item[key] for key in ("node", "stage", "collective")}, item)
        for item in last_figures(reports, nodes)
    ]
    totals = counts(report)
    families = [
        _family(
            "busbar_validation_verdict",
            f"Verdict of the last validation: {CODE_WORDS}.",
            [(cluster, CODES[report["verdict"]])],
        ),
        _family(
            "busbar_validation_timestamp_seconds",
            "Start of the last validation, seconds since 1970.",
            [(cluster, seconds(report["started"]))],
        ),
        _family(
            "busbar_validation_tests",
            "Number of tests of the last validation by verdict.",
            [(cluster | {"verdict": verdict}, totals[verdict]) for verdict in VERDICTS],
        ),
        _family(
            "busbar_validation_nodes_left_out",
            "Number of selected nodes that were not tested.",
            [(cluster, len(report["left_out"]))],
        ),
        _family(
            "busbar_test_verdict",
            f"Verdict of a test: {CODE_WORDS}.",
            [(labels, CODES[test["verdict"]]) for labels, test in tests],
        ),
        _family(
            "busbar_test_busbw_bytes_per_second",
            "Out-of-place bus bandwidth at the largest size.",
            [(labels, _bytes(test["measured_busbw"])) for labels, test in tests],
        ),
        _family(
            "busbar_test_floor_bytes_per_second",
            "Minimum bandwidth of a test.",
            [(labels, _bytes(test["floor"])) for labels, test in tests],
        ),
        _family(
            "busbar_node_verdict",
            f"Last verdict of a node in a stage: {CODE_WORDS}. A node passes if it passed with any partners.",
            [(labels, CODES[item["verdict"]]) for labels, item in figures],
        ),
        *(
            _family(
                f"busbar_node_{key}_bytes_per_second",
                f"{words}: median over the latest tests of the stage that included the node.",
                [(labels, _bytes(value(item))) for labels, item in figures],
            )
            for key, words, value in _FIGURES
        ),
        _family(
            "busbar_node_figure_timestamp_seconds",
            "Start of the validation that measured the values of a node and stage, seconds since 1970.",
            [(labels, seconds(item["started"])) for labels, item in figures],
        ),
        _family(
            "busbar_node_validated_timestamp_seconds",
            "Start of the last validation with a conclusive verdict about a node, seconds since 1970.",
            [(cluster | {"node": node}, began) for node, began in last_validated(reports, nodes).items()],
        ),
    ]
    own: dict[str, tuple[str, list[tuple[dict[str, object], float | None]]]] = {}
    for metric in last_metrics(reports, nodes):
        own.setdefault(metric["name"], (metric["help"], []))[1].append((cluster | metric["labels"], metric["value"]))
    families += [_family(f"busbar_{name}", *described) for name, described in own.items()]
    return "\n".join(line for family in families for line in family) + "\n"


def _labels(test: ReadTest) -> dict[str, object]:
    return {
        "test": test["name"],
        "stage": test["stage"],
        "collective": test["collective"],
        "hardware": test["hardware"],
        "nodes": fold_hosts(everyone(test)),
    }


def _bytes(gbs: float | None) -> float | None:
    return None if gbs is None else gbs * _GB


class LastFigure(NodeFigure):
    """The latest values of a node, and the start of their validation."""

    started: str


def seconds(started: str) -> float | None:
    """Return the Unix time (s) of an ISO 8601 timestamp, None if it is invalid."""
    try:
        return datetime.fromisoformat(started.replace("Z", "+00:00")).timestamp()  # Python 3.9 does not read Z
    except ValueError:
        return None


def distinct(tests: list[ReadTest]) -> list[ReadTest]:
    """Return the last test of each name, stage and collective."""
    return list({(test["name"], test["stage"], test["collective"]): test for test in tests}.values())


def past(report: ReadReport, earlier: Iterable[ReadReport]) -> list[ReadReport]:
    """Return the reports of the same cluster, the oldest first, ending with this report.

    Args:
        report: a normalised report.
        earlier: older reports, the oldest first.
    """
    return [*(other for other in earlier if other["cluster"] == report["cluster"]), report]


def last_figures(reports: Sequence[ReadReport], nodes: Collection[str] | None = None) -> list[LastFigure]:
    """Return the latest values of each node, stage and collective.

    Args:
        reports: normalised reports, the oldest first.
        nodes: the nodes of the cluster, to which the result is limited; None for all.
    """
    found: dict[tuple[str, str, str], LastFigure] = {}
    for report in reports:
        rows = [row for row in node_figures(report) if nodes is None or row["node"] in nodes]
        # The culprit search runs only after a failure, so a passed test of all nodes supersedes its older results.
        passed = {row["node"] for row in rows if row["stage"] == Cluster.name and row["verdict"] == "PASS"}
        found = {key: row for key, row in found.items() if key[0] not in passed or key[1] not in Pair.labels}
        found |= {(row["node"], row["stage"], row["collective"]): {**row, "started": report["started"]} for row in rows}
    return [row for _key, row in sorted(found.items(), key=lambda item: item[0])]


def last_metrics(reports: Sequence[ReadReport], nodes: Collection[str] | None = None) -> list[Metric]:
    """Return the stage-specific metrics: the latest of each node, and those without a node from the last report.

    Args:
        reports: normalised reports, the oldest first.
        nodes: the nodes of the cluster, to which the result is limited; None for all.
    """
    found: dict[tuple[str, frozenset[tuple[str, str]]], Metric] = {}
    for number, report in enumerate(reports, start=1):
        for test in distinct(report["tests"]):
            stage = stage_of(test)
            for metric in stage.metrics(test) if stage else []:
                node = metric["labels"].get("node")
                if number == len(reports) if node is None else nodes is None or node in nodes:
                    found[metric["name"], frozenset(metric["labels"].items())] = metric
    return sorted(found.values(), key=lambda metric: (metric["name"], metric["labels"].get("node", "")))


def last_validated(reports: Sequence[ReadReport], nodes: Collection[str] | None = None) -> dict[str, float]:
    """Return the start of the last validation with a conclusive verdict about each node, as Unix time (s)."""
    found: dict[str, float] = {}
    for report in reports:
        began = seconds(report["started"])
        judged = [test for test in report["tests"] if test["verdict"] in {"PASS", "FAIL"}] if began is not None else []
        found |= dict.fromkeys((node for test in judged for node in everyone(test)), began or 0.0)
    return {node: found[node] for node in sorted(found) if nodes is None or node in nodes}
