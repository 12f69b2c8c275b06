# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Diagnose a provisioned host from the output of its commands, as problems with remedies."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ..common.problems import Problem, make_problem
from ..slurm.reservation import OWN_NAME
from ..slurm.slurm_drain_reasons import drain_remedy
from .system_checks import Disk, disk_findings, service_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..slurm.scontrol_nodes import Node

__all__ = [
    "SERVICES",
    "certificate_end",
    "certificate_problems",
    "disk_problems",
    "drain_problems",
    "firing_problems",
    "network_mounts",
    "ping_problems",
    "reservation_problems",
    "service_problems",
]

# Services that the roles enable; those not enabled on a host are ignored.
SERVICES = (
    *("chrony", "chronyd", "munge", "slurmctld", "slurmdbd", "slurmd", "sackd", "mariadb", "nfs-server", "autofs"),
    *("prometheus", "prometheus-alertmanager", "alertmanager", "grafana-server"),
    *("prometheus-node-exporter", "node_exporter", "dcgm-exporter", "nvidia-dcgm", "nvidia-persistenced"),
    *("nvidia-fabricmanager", "nvidia-imex", "busbar-slurm-metrics", "systemd-journal-upload"),
    "busbar-journal-tls",
)
_SPACES = re.compile(r"\s+")
_PING = re.compile(r"^Slurmctld\((\w+)\) at (\S+) is (\w+)", re.MULTILINE)
_DAY_S = 86400
_NETWORK = re.compile(r"^(nfs4?|lustre|ceph|beegfs|gpfs|weka\w*|cifs)$")
_VALID_TO = re.compile(r"^\s*Valid: (?:from \S+ to (\S+)|(forever))", re.MULTILINE)
_NOT_AFTER = re.compile(r"^notAfter=(.+)$", re.MULTILINE)


def service_problems(host: str, text: str, uptime_s: float | None = None) -> list[Problem]:
    """Return the services that do not run or do not stay up; see `service_answer` for the arguments."""
    answer = service_answer(text, uptime_s)
    if answer.unknown:
        remedy = "check the host: systemctl status"
        return [make_problem([host], "services", answer.unknown, remedy)]
    return [make_problem([host], "services", each.problem, each.remedy) for each in answer.findings]


def network_mounts(fstab: str, mountinfo: str) -> dict[str, bool]:
    """Return the mount points of network file systems, and whether each is mounted.

    Args:
        fstab: text of /etc/fstab; entries with `noauto` or an automount are ignored.
        mountinfo: text of /proc/self/mountinfo, which is read without contacting a server.
    """
    found: dict[str, bool] = {}
    for line in fstab.splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) > 3 and _NETWORK.match(words[2]):  # noqa: PLR2004 - device, path, type, options
            lazy = {"noauto", "x-systemd.automount"} & set(words[3].split(","))
            if not lazy:
                found[_unescaped(words[1])] = False
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after and _NETWORK.match(after.split()[0]):
            found[_unescaped(before.split()[4])] = True
    return found


def _unescaped(path: str) -> str:
    """Return a path from a mount table with its octal escapes decoded."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def disk_problems(host: str, disk: Disk) -> list[Problem]:
    """Return the problems with a mount."""
    return [make_problem([host], "mounts", each.problem, each.remedy) for each in disk_findings(disk, 0)]


def certificate_end(text: str) -> float | None:
    """Return the expiry of a certificate in seconds since 1970, or None if the text does not contain it.

    Args:
        text: output of `ssh-keygen -L` or of `openssl x509 -noout -enddate`, both in UTC.
    """
    seen = _VALID_TO.search(text)
    if seen:
        return float("inf") if "forever" in (seen[1], seen[2]) else _seconds(seen[1], "%Y-%m-%dT%H:%M:%S")
    seen = _NOT_AFTER.search(text)
    return _seconds(_SPACES.sub(" ", seen[1].strip()), "%b %d %H:%M:%S %Y GMT") if seen else None


def _seconds(text: str, form: str) -> float | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def certificate_problems(host: str, path: str, text: str, now: float, days: int) -> list[Problem]:
    """Return a problem if a certificate has expired, expires soon, or cannot be read.

    Args:
        host: name of the host.
        path: path of the certificate.
        text: see `certificate_end`.
        now: seconds since 1970.
        days: required remaining validity.
    """
    end = certificate_end(text)
    renew = "busbar provision monitoring --tags tls"
    if "/ssh/" in path:
        renew = "busbar provision base --tags ssh; `busbar ssh timer` installs a timer for that"
    if end is None:
        problem = f"{path} cannot be read: {' '.join(text.split())[:120] or 'no answer'}"
        return [make_problem([host], "certificates", problem, renew)]
    if end <= now:
        return [make_problem([host], "certificates", f"{path} has expired", renew)]
    left = (end - now) / _DAY_S
    if left < days:
        problem = f"{path} expires in {left:.0f} days"
        return [make_problem([host], "certificates", problem, renew)]
    return []


def ping_problems(host: str, text: str) -> list[Problem]:
    """Return the controllers that do not answer, from the output of `scontrol ping`."""
    answers = _PING.findall(text)
    if not answers:
        problem = f"slurmctld does not answer: {' '.join(text.split())[:120] or 'scontrol ping printed nothing'}"
        return [
            make_problem([host], "slurmctld", problem, "journalctl -u slurmctld -n 50; systemctl restart slurmctld")
        ]
    return [
        make_problem(
            [where],
            "slurmctld",
            f"the {role} slurmctld does not answer ({state})",
            f"on {where}: journalctl -u slurmctld -n 50; systemctl restart slurmctld",
        )
        for role, where, state in answers
        if state != "UP"
    ]


def drain_problems(nodes: Iterable[Node]) -> Iterator[Problem]:
    """Yield a problem for each node that is down or drained."""
    for node in nodes:
        if node.state not in {"down", "drained", "draining"}:
            continue
        reason = f": {node.reason}" if node.reason else ", without a reason"
        resume = f"scontrol update NodeName={node.name} State=RESUME"
        if node.reason.startswith("busbar health:"):
            remedy = f"busbar health {node.name} reports the fault and its remedy; then {resume}"
        elif known := drain_remedy(node.name, node.reason):
            remedy = known
        elif node.state == "down":
            remedy = f"on {node.name}: systemctl status slurmd; journalctl -u slurmd -n 50; then {resume}"
        else:
            remedy = f"once the reason no longer applies: {resume}"
        yield make_problem([node.name], "slurm", f"node is {node.state}{reason}", remedy)


def reservation_problems(text: str) -> list[Problem]:
    """Return a problem if busbar's reservation exists, from the output of `scontrol -o show reservation`."""
    if not re.search(rf"^ReservationName={OWN_NAME}\s", text, re.MULTILINE):
        return []
    problem = f"the validation reservation {OWN_NAME} exists, but no validation runs from this host"
    remedy = f"if no validation runs from another host: scontrol delete ReservationName={OWN_NAME}"
    return [make_problem([], "slurm", problem, remedy)]


def firing_problems(host: str, alerts: Sequence[Mapping[str, object]]) -> list[Problem]:
    """Return the firing alerts as problems.

    Args:
        host: host of Prometheus.
        alerts: `data.alerts` of its API /api/v1/alerts.
    """
    found = []
    for alert in alerts:
        labels, notes = alert.get("labels"), alert.get("annotations")
        labels, notes = labels if isinstance(labels, dict) else {}, notes if isinstance(notes, dict) else {}
        # Watchdog, with severity none, always fires; info alerts need no action.
        if alert.get("state") != "firing" or labels.get("severity") in {"none", "info"} or "alertname" not in labels:
            continue
        where = str(labels.get("node") or labels.get("instance") or host)
        summary = " ".join(str(notes.get("summary") or notes.get("description") or "").split())
        problem = f"{labels['alertname']} is firing{': ' + summary if summary else ''}"
        remedy = "; ".join(str(notes.get("runbook") or "").strip().splitlines()) or f"see Prometheus on {host}"
        found.append(make_problem([where], "alerts", problem, remedy))
    return found
