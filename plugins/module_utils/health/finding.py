"""What a check of a node finds, and how severe it is. Runs on a node's own python3.

The severities are those of awslabs/awsome-distributed-ai, pull request 958: ISOLATE, the hardware is to be replaced;
RESET, a reset, a reboot or a repair of software cures it; MONITOR, it is told and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ISOLATE", "MONITOR", "OFF", "RESET", "SEVERITIES", "STATE", "Answer", "Finding", "Node", "weighed"]

ISOLATE, RESET, MONITOR = "ISOLATE", "RESET", "MONITOR"
SEVERITIES = (ISOLATE, RESET, MONITOR)
# What a site says of a check whose findings it does not want.
OFF = "OFF"
# How the value of an event begins that reports a state.
STATE = "state of "


class Finding(NamedTuple):
    """One thing that is wrong: which check found it, what it is, and what to type.

    Attributes:
        check: name of the check.
        severity: one of SEVERITIES.
        problem: the thing and what is wrong with it, in one line.
        remedy: what to type or do.
        value: what was measured, where there is a number. An event whose value begins with STATE reports a state: the
            last one counts, and severity OFF ends it.
    """

    check: str
    severity: str
    problem: str
    remedy: str = ""
    value: str = ""

    @property
    def is_state(self) -> bool:
        """Whether this replaces an earlier event of the same check and value."""
        return self.value.startswith(STATE)


class Answer(NamedTuple):
    """What a check has to say.

    Attributes:
        findings: what is wrong.
        samples: counters by name, to be kept for rates.
        events: findings that are read once, such as lines of the kernel's log; they stand until the node has been
            rebooted or somebody has given it back to Slurm.
        unknown: why nothing is known; nobody is blamed for it.
    """

    findings: Sequence[Finding] = ()
    samples: Mapping[str, float] = {}
    events: Sequence[Finding] = ()
    unknown: str = ""


class Node(NamedTuple):
    """The node that a check looks at.

    Attributes:
        declared: what it should have, the content of node_health.json.
        root: where /proc, /sys and /dev are.
        now: seconds since 1970.
        samples: the samples of earlier runs by name, each a list of time and value.
        log_since: up to when the kernel's log has been read, seconds since 1970; 0 since the boot.
    """

    declared: Mapping[str, Any]
    root: Any
    now: float
    samples: Mapping[str, Sequence[Sequence[float]]] = {}
    log_since: float = 0.0


def weighed(findings: Iterable[Finding], severities: Mapping[str, str]) -> list[Finding]:
    """Return findings with the site's severities, the most severe first; without those that are switched off."""
    found = [each._replace(severity=severities.get(each.check, each.severity)) for each in findings]
    return sorted((each for each in found if each.severity != OFF), key=lambda each: SEVERITIES.index(each.severity))
