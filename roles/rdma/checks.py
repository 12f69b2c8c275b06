"""Checks the options of the rdma role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.module_utils.nvidia.rdma_problems import address_problems, declaration_problems, shared_address_problems
from ...plugins.plugin_utils.role_checks import Known, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options."""
    declared = {
        "source": options.get("source", "none"),
        "ipoib": options["ipoib_interfaces"],
        "networks": options["ipoib_networks"],
        "gid_index": options["nccl_gid_index"],
    }
    return declaration_problems(cluster.get("host", ""), {**options, **declared})


def check_hosts(hosts: Sequence[str], cluster: Known) -> list[Problem]:
    """Return IPoIB addresses that several of these hosts use."""
    return shared_address_problems(hosts, cluster["hostvars"])


def check_inventory(_: Known, cluster: Known) -> list[Problem]:
    """Return IPoIB addresses that several hosts use, or that a host uses for its management connection."""
    hosts = {host: cluster["hostvars"][host] for host in cluster["groups"].get("all", [])}
    interfaces = {host: each.get("rdma_ipoib_interfaces") or [] for host, each in hosts.items()}
    return address_problems(interfaces, {host: str(each.get("ansible_host") or host) for host, each in hosts.items()})


INVENTORY = {"rdma_ipoib_interfaces": check_inventory}
