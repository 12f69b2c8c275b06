"""What keeps auditd from working on a host, found before anything is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..common.problems import Problem

__all__ = ["auditd_problems"]

# max_log_file and num_logs: auditd.conf(5).
_BOUNDS = {"log_mb": (1, 4095), "log_files": (2, 999)}
_OFF = ("audit=0", "audit=off")


def auditd_problems(options: Mapping[str, Any], host: str, seen: Sequence[str]) -> list[Problem]:
    """Return what keeps auditd of a host from working.

    Args:
        options: `log_mb` and `log_files`: the options without their prefix.
        host: whose options these are.
        seen: lines of the host: `container NAME` in a container, words of the kernel's command line, `no audit`.
    """
    return [make_problem([host], f"auditd_{key}", *rest) for key, *rest in _wrong(options, seen)]


def _wrong(options: Mapping[str, Any], seen: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for key, (least, most) in _BOUNDS.items():
        if not least <= int(options[key]) <= most:
            yield key, f"{options[key]} is not between {least} and {most}", "write another number"
    containers = [line.partition(" ")[2] for line in seen if line.startswith("container ")]
    if containers and containers[0] != "none":
        problem = f"this host is a container ({containers[0]}), and the kernel's audit belongs to the machine around it"
        yield "enabled", problem, "set auditd_enabled for the machine, or false for this host"
    elif any(word in seen for word in _OFF):
        problem = f"the kernel was started with {next(word for word in _OFF if word in seen)}"
        yield "enabled", problem, "take that out of the kernel's command line and reboot, or set auditd_enabled: false"
    elif "no audit" in seen:
        problem = "the kernel was built without audit"
        yield "enabled", problem, "boot the distribution's kernel, or set auditd_enabled: false"
