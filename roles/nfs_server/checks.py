"""Checks the options of the role nfs_server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.preflight.storage import site_storage_problems, storage_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem


def check(options: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return the invalid `exports` and `networks`."""
    host = cluster["host"]
    return storage_problems(options["exports"], "nfs_server_exports", host, networks=options["networks"])


def check_inventory(_: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the exports and mounts of all hosts."""
    hosts = cluster["groups"].get("all", [])
    return site_storage_problems(hosts, cluster["nfs_servers"], cluster["nfs_clients"], cluster["hostvars"])


INVENTORY = {"nfs_server_exports, nfs_client_mounts, storage_mounts_entries": check_inventory}
