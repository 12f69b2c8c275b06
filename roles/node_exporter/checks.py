"""Checks the options of the node_exporter role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.common.program_source import argument_problems, source_problems
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# The role writes these metrics itself.
_OWN = "busbar_node_"


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options.

    Args:
        options: `source`, `archives`, `arguments`, `collectors`, `collectors_off` and `extra_metrics` of the role,
            `architecture` of the host, and `packaged`: whether its distribution has a package.
        cluster: the `host`.
    """
    host = cluster["host"]
    problems = source_problems("node_exporter", options, host)
    problems += argument_problems("node_exporter", options["arguments"], host)
    both = sorted(set(options["collectors"]) & set(options["collectors_off"]))
    if both:
        problem = f"{', '.join(both)} is also listed in node_exporter_collectors"
        problems.append(
            make_problem([host], "node_exporter_collectors_off", problem, "remove it from one of these options")
        )
    return problems + [
        make_problem([host], f"node_exporter_extra_metrics[{number}]", problem, remedy)
        for number, problem, remedy in _metric_faults(options["extra_metrics"])
    ]


def _metric_faults(metrics: Iterable[Known]) -> Iterator[tuple[int, str, str]]:
    for number, metric in enumerate(metrics):
        name, labels = str(metric["name"]), metric.get("labels") or {}
        if not _METRIC.fullmatch(name):
            yield number, f"{name!r} is not a valid metric name", "use letters, digits and _"
        elif name.startswith(_OWN):
            yield number, f"{_OWN}* is reserved for the role", "choose another name"
        for label in labels:
            if not _LABEL.fullmatch(str(label)):
                yield number, f"{label!r} is not a valid label name", "use letters, digits and _"
        try:
            float(str(metric["value"]))
        except ValueError:
            yield number, f"value {metric['value']!r} of {name} is not a number", "set a number"
