"""Findings of node health checks and their severities.

The severities are those of awslabs/awsome-distributed-ai, pull request 958: ISOLATE, replace the hardware; RESET, a
reset, a reboot or a software repair fixes it; MONITOR, report only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ISOLATE", "MONITOR", "OFF", "RESET", "SEVERITIES", "STATE", "Answer", "Finding", "Node", "with_severities"]

ISOLATE, RESET, MONITOR = "ISOLATE", "RESET", "MONITOR"
SEVERITIES = (ISOLATE, RESET, MONITOR)
# Severity that disables the findings of a check.
OFF = "OFF"
# Prefix of the value of an event that reports a state.
STATE = "state of "


class Finding(NamedTuple):
    """A problem that a check found, and its remedy.

    Attributes:
        check: name of the check.
        severity: one of SEVERITIES.
        problem: component and problem, in one line.
        remedy: command or action.
        value: measured value, if any. An event whose value begins with STATE reports a state: only the latest counts,
            and severity OFF clears it.
    """

    check: str
    severity: str
    problem: str
    remedy: str = ""
    value: str = ""

    @property
    def is_state(self) -> bool:
        """Whether this event replaces an earlier one with the same check and value."""
        return self.value.startswith(STATE)


class Answer(NamedTuple):
    """The result of a check.

    Attributes:
        findings: current problems.
        samples: counters by name, kept to compute rates.
        events: findings that are read only once, such as lines of the kernel log; they are kept until the node reboots
            or an administrator resumes it.
        unknown: why the check has no result; this does not count as a fault of the node.
    """

    findings: Sequence[Finding] = ()
    samples: Mapping[str, float] = {}
    events: Sequence[Finding] = ()
    unknown: str = ""


class Node(NamedTuple):
    """The node that a check examines.

    Attributes:
        declared: expected state, the content of node_health.json.
        root: directory that contains /proc, /sys and /dev.
        now: seconds since 1970.
        samples: samples of earlier runs by name, each a list of time and value.
        log_since: time up to which the kernel log was read, seconds since 1970; 0 for the whole boot.
    """

    declared: Mapping[str, Any]
    root: Any
    now: float
    samples: Mapping[str, Sequence[Sequence[float]]] = {}
    log_since: float = 0.0


def with_severities(findings: Iterable[Finding], severities: Mapping[str, str]) -> list[Finding]:
    """Return findings with the site's severities, most severe first, without disabled checks."""
    found = [each._replace(severity=severities.get(each.check, each.severity)) for each in findings]
    return sorted((each for each in found if each.severity != OFF), key=lambda each: SEVERITIES.index(each.severity))
