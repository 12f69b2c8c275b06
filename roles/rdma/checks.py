"""Checks the options of the role rdma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.nvidia.rdma_problems import address_problems, declaration_problems, shared_address_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...plugins.module_utils.common.problems import Problem

_IF_UNKNOWN = {
    "source": "none",
    "naming": "fallback",
    "names": {},
    "interface_names": {},
    "modules": [],
    "ipoib_interfaces": [],
    "ipoib_networks": [],
    "roce_mode": "",
    "roce_tos": -1,
    "nccl_gid_index": "",
}
_CALLED = {"ipoib_interfaces": "ipoib", "ipoib_networks": "networks", "nccl_gid_index": "gid_index"}


def check(options: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return the invalid options; those that a site does not write are valid."""
    declared = {_CALLED.get(key, key): options.get(key, default) for key, default in _IF_UNKNOWN.items()}
    return declaration_problems(cluster.get("host", ""), declared)


def check_hosts(hosts: Sequence[str], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return addresses of IP over InfiniBand that more than one of the hosts has."""
    return shared_address_problems(hosts, cluster["hostvars"])


def check_inventory(_: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return addresses of IP over InfiniBand that more than one host has, or by which one is managed."""
    hosts = {host: cluster["hostvars"][host] for host in cluster["groups"].get("all", [])}
    interfaces = {host: each.get("rdma_ipoib_interfaces") or [] for host, each in hosts.items()}
    return address_problems(interfaces, {host: str(each.get("ansible_host") or host) for host, each in hosts.items()})


INVENTORY = {"rdma_ipoib_interfaces": check_inventory}
