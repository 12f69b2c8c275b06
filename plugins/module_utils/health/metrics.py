"""Format the result of a health check for node exporter's textfile collector."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .finding import Finding

__all__ = ["metrics"]

_PREFIX = "busbar_node_health"


def metrics(  # noqa: PLR0913 - one argument per metric
    findings: Sequence[Finding],
    unknown: Iterable[str],
    *,
    ended: float,
    took_s: float,
    interval_s: int,
    withheld: bool,
) -> str:
    """Return the metrics in Prometheus' text format.

    Args:
        findings: current problems.
        unknown: checks without a result.
        ended: time at which the check finished, seconds since 1970.
        took_s: duration of the check.
        interval_s: seconds between checks; 0 if the node is not checked regularly.
        withheld: whether a drain is withheld because too many nodes are drained.
    """
    counted = Counter((each.check, each.severity) for each in findings)
    labelled = [
        (f'check="{check}",severity="{severity}"', count) for (check, severity), count in sorted(counted.items())
    ]
    silent = [(f'check="{name}"', 1) for name in sorted({each.partition(" ")[0] for each in unknown})]
    lines = [
        *_family("findings", "Problems found on the node, by check and severity.", labelled),
        *_family("unknown", "Checks without a result (no answer or unknown output).", silent),
        *_family(
            "drain_withheld",
            "1: a drain is withheld because too many nodes are drained.",
            [("", int(withheld))],
        ),
        *_family(
            "last_run_timestamp_seconds", "Time at which the last check of the node finished.", [("", round(ended, 3))]
        ),
        *_family(
            "interval_seconds", "Interval between checks; 0: the node is not checked regularly.", [("", interval_s)]
        ),
        *_family("run_seconds", "Duration of the last check.", [("", round(took_s, 3))]),
    ]
    return "".join(f"{line}\n" for line in lines)


def _family(name: str, words: str, samples: Sequence[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {words}"
    yield f"# TYPE {_PREFIX}_{name} gauge"
    for labels, value in samples:
        yield f"{_PREFIX}_{name}{f'{{{labels}}}' if labels else ''} {value}"
