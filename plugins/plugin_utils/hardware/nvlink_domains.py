# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the declared NVLink domains with the fabric that the GPUs report.

GPUs of different trays reach each other over NVLink if they have the same ClusterUUID and CliqueId: NVML's
nvmlGpuFabricInfo_t, shown by ``nvidia-smi -q`` under Fabric.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY = "nvlink_domain"
_REMEDY = (
    "set the same nvlink_domain for nodes with the same ClusterUUID and CliqueId in `nvidia-smi -q`, and a different "
    "one for other nodes; or correct the NVLink partitions of the rack"
)
_Fabric = tuple[str, int]


def fabric_of(facts: Mapping[str, Any]) -> set[_Fabric]:
    """Return cluster UUID and clique ID of a host's GPUs; GPUs that report neither are skipped.

    Args:
        facts: the `devices` of `node_info`.
    """
    fabrics = [gpu.get("fabric") or {} for gpu in facts.get("gpus") or []]
    return {
        (str(fabric["cluster_uuid"]), int(fabric["clique_id"]))
        for fabric in fabrics
        # The UUID is zero until the fabric manager has assigned one.
        if fabric.get("clique_id") is not None and str(fabric.get("cluster_uuid") or "").strip("0-")
    }


def domain_claims(domains: Mapping[str, str], facts: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Return a problem for hosts whose declared NVLink domain does not match their fabric.

    Args:
        domains: `nvlink_domain` by host; hosts without one are skipped.
        facts: the `devices` of `node_info` by host.
    """
    declared: dict[str, dict[_Fabric, list[str]]] = defaultdict(lambda: defaultdict(list))
    found: dict[_Fabric, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, domain in domains.items():
        for fabric in fabric_of(facts.get(host) or {}) if domain else ():
            declared[domain][fabric].append(host)
            found[fabric][domain].append(host)
    problems = []
    for domain, fabrics in declared.items():
        if len(fabrics) > 1:
            listed = "; ".join(
                f"{', '.join(hosts)}: {uuid} clique {clique}" for (uuid, clique), hosts in fabrics.items()
            )
            hosts = list(dict.fromkeys(host for members in fabrics.values() for host in members))
            problems.append(make_problem(hosts, _KEY, f"{domain} contains several NVLink domains: {listed}", _REMEDY))
    for (uuid, clique), names in found.items():
        if len(names) > 1:
            hosts = [host for members in names.values() for host in members]
            problem = f"{' and '.join(names)} are one NVLink domain, {uuid} clique {clique}"
            problems.append(make_problem(hosts, _KEY, problem, _REMEDY))
    return problems
