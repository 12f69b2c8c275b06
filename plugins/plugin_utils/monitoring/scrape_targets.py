"""Generate Prometheus scrape targets for file-based service discovery from the inventory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem
from ..engine.catalogue.builtin_profiles import unknown_hardware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...module_utils.common.problems import Problem

Targets = dict[str, list[dict[str, Any]]]


# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0


def socket_address(address: str, port: int | str) -> str:
    """Return ADDRESS:PORT, with an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address and not address.startswith("[") else f"{address}:{port}"


def scrape_targets(
    jobs: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, Mapping[str, Any]],
    catalogue: Mapping[str, Mapping[str, Any]],
) -> Targets:
    """Return the targets of each job, with their labels.

    Args:
        jobs: by name: `hosts`, `exporter` (the role; a host's `<exporter>_address` and `<exporter>_port` take
            precedence), `port`, and optionally `address` (listen address of all hosts, such as 127.0.0.1), `gpus` (only
            hosts whose hardware has GPUs), `source` (variables with the exporter's source, of which the first that a
            host sets applies; `none` excludes the host) and `source_default` (value for hosts that set none of them).
        variables: variables of every host, without role defaults; the address is `monitoring_address`, by default
            `hosts_address`, then `ansible_host`, then the host name.
        catalogue: hardware profiles by name, for `gpus`.

    Raises:
        KeyError: if a job lacks hosts, exporter or port, or a host is unknown.
        ValueError: if a job requires GPUs and the hardware of a host is unknown.
    """
    # Copy the values: Ansible templates them again on each access.
    jobs = {name: {**dict(job.items()), "source": list(job.get("source") or [])} for name, job in jobs.items()}
    wanted: dict[str, list[str]] = {}
    for name, job in jobs.items():
        for host in job["hosts"]:
            wanted.setdefault(str(host), []).append(name)
    targets: Targets = {name: [] for name in jobs}
    for host, names in wanted.items():
        # Look up once: Ansible assembles a host's variables on each access.
        known = variables[host]
        for name in names:
            if _wanted(host, known, jobs[name], catalogue):
                targets[name].append(_target(host, known, jobs[name]))
    return targets


def targets_text(targets: list[dict[str, Any]]) -> str:
    """Return the targets as YAML with one JSON object per line: fast to write, and a diff shows one line per host."""
    return "".join(f"- {json.dumps(target)}\n" for target in targets) or "[]\n"


def target_problems(targets: Targets) -> list[Problem]:
    """Return a problem for hosts of one job with the same address and port, which are probably one machine."""
    problems = []
    for name, listed in targets.items():
        holders: dict[str, list[str]] = {}
        for target in listed:
            holders.setdefault(target["targets"][0], []).append(target["labels"]["instance"])
        for address, hosts in holders.items():
            if len(hosts) > 1:
                remedy = "set a unique ansible_host, hosts_address or monitoring_address for each host"
                problem = f"share the address {address} in job {name}"
                problems.append(make_problem(hosts, "monitoring_address", problem, remedy))
    return problems


def _target(host: str, known: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    exporter = job["exporter"]
    address = known.get(f"{exporter}_address") or job.get("address") or _address_of(host, known)
    port = known.get(f"{exporter}_port") or job["port"]
    labels = {"instance": host, "node": host}
    if known.get("hardware"):
        labels["hardware"] = str(known["hardware"])
    return {"targets": [socket_address(str(address), port)], "labels": labels}


def _wanted(
    host: str, known: Mapping[str, Any], job: Mapping[str, Any], catalogue: Mapping[str, Mapping[str, Any]]
) -> bool:
    if job.get("gpus") and not _has_gpus(host, known.get("hardware"), catalogue):
        return False
    sources = [known[name] for name in job["source"] if name in known]
    return (sources[0] if sources else job.get("source_default")) != "none"


def _has_gpus(host: str, hardware: object, catalogue: Mapping[str, Mapping[str, Any]]) -> bool:
    if not hardware:
        return False
    if hardware not in catalogue:
        problem, remedy = unknown_hardware(hardware, catalogue)
        message = f"{host}: hardware: {problem}. Remedy: {remedy}."
        raise ValueError(message)
    return bool(catalogue[str(hardware)].get("gpu"))


def _address_of(host: str, known: Mapping[str, Any]) -> str:
    names = ("monitoring_address", "hosts_address", "ansible_host")
    return next((str(known[name]) for name in names if known.get(name)), host)
