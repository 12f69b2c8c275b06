# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes a report of a validation in Prometheus' text format, for node exporter's textfile collector."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .history import node_figures
from .report_checks import COLLECTIVE
from .report_data import VERDICTS, counts, everyone
from .report_page import folded
from .report_storage import STORAGE, storage_families
from .report_training import TRAINING, training_families

__all__ = ["metrics"]

_CODE = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}
_CODES = "0 PASS, 1 FAIL, 3 INCONCLUSIVE"
_GB = 1e9


def _escaped(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _sample(name: str, labels: dict[str, object], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(item)}"' for key, item in labels.items())
    return f"{name}{{{inside}}} {value:.10g}"


def _family(name: str, help_text: str, samples: list[tuple[dict[str, object], float | None]]) -> list[str]:
    lines = [_sample(name, labels, value) for labels, value in samples if value is not None]
    return [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *dict.fromkeys(lines)] if lines else []


def _seconds(started: str) -> float | None:
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None


def metrics(report: dict[str, Any]) -> str:
    """Return the last verdict and busbw of the cluster, of each test, and of each node and stage.

    Bandwidths are in bytes per second, as Prometheus asks for base units; verdicts are busbar's exit codes.

    Args:
        report: as `report_data.normalised` gives it.
    """
    cluster: dict[str, object] = {"cluster": report["cluster"]}
    tests = [(cluster | _labels(test), test) for test in _distinct(report["tests"])]
    nodes = [
        (cluster | {key: item[key] for key in ("node", "stage", "collective")}, item) for item in node_figures(report)
    ]
    checks = [
        (cluster | {"node": node, "check": test["kind"], "hardware": test["hardware"]}, test)
        for test in _distinct(report["tests"])
        for node in (everyone(test) if test["kind"] not in {COLLECTIVE, STORAGE, TRAINING} else [])
    ]
    totals = counts(report)
    families = [
        _family(
            "busbar_validation_verdict",
            f"Verdict of the last validation: {_CODES}.",
            [(cluster, _CODE[report["verdict"]])],
        ),
        _family(
            "busbar_validation_timestamp_seconds",
            "When the last validation began.",
            [(cluster, _seconds(report["started"]))],
        ),
        _family(
            "busbar_validation_tests",
            "Tests of the last validation by verdict.",
            [(cluster | {"verdict": verdict}, totals[verdict]) for verdict in VERDICTS],
        ),
        _family(
            "busbar_validation_nodes_left_out",
            "Nodes that were to be tested and were not.",
            [(cluster, len(report["left_out"]))],
        ),
        _family(
            "busbar_test_verdict",
            f"Verdict of a test: {_CODES}.",
            [(labels, _CODE[test["verdict"]]) for labels, test in tests],
        ),
        _family(
            "busbar_test_busbw_bytes_per_second",
            "Out-of-place bus bandwidth at the largest size.",
            [(labels, _bytes(test["measured_busbw"])) for labels, test in tests],
        ),
        _family(
            "busbar_test_floor_bytes_per_second",
            "Bandwidth that a test must reach.",
            [(labels, _bytes(test["floor"])) for labels, test in tests],
        ),
        _family(
            "busbar_node_verdict",
            f"Verdict of a node in a stage: {_CODES}; a pass with any partners counts.",
            [(labels, _CODE[item["verdict"]]) for labels, item in nodes],
        ),
        _family(
            "busbar_node_busbw_bytes_per_second",
            "Median bus bandwidth of the tests of a stage with that node.",
            [(labels, _bytes(item["busbw"])) for labels, item in nodes],
        ),
        _family(
            "busbar_check_verdict",
            f"Verdict of a check of a single node: {_CODES}.",
            [(labels, _CODE[test["verdict"]]) for labels, test in checks],
        ),
        _family(
            "busbar_check_slowest_pair_bytes_per_second",
            "What the slowest pair of GPUs of a node reached with direct access.",
            [(labels, _bytes(test["lowest_gbs"])) for labels, test in checks],
        ),
    ]
    families += [_family(*item) for item in storage_families(_distinct(report["tests"]), report["cluster"], _CODE)]
    families += [_family(*item) for item in training_families(_distinct(report["tests"]), report["cluster"])]
    return "\n".join(line for family in families for line in family) + "\n"


def _distinct(tests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last test of each name and collective: two samples with the same labels are refused."""
    return list({(test["name"], test["stage"], test["collective"]): test for test in tests}.values())


def _labels(test: dict[str, Any]) -> dict[str, object]:
    return {
        "test": test["name"],
        "stage": test["stage"],
        "collective": test["collective"],
        "hardware": test["hardware"],
        "nodes": folded(everyone(test)),
    }


def _bytes(gbs: float | None) -> float | None:
    return None if gbs is None else gbs * _GB
