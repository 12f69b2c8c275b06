"""Checks the options of the nfs_server role."""

from __future__ import annotations

from ...plugins.plugin_utils.preflight.storage import site_storage_problems
from ...plugins.plugin_utils.role_checks import Known, Problem
from ...plugins.plugin_utils.storage.problems import export_problems, network_problems


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid `exports` and `networks`."""
    hosts = [cluster["host"]]
    return export_problems(hosts, options["exports"]) + network_problems(
        hosts, "nfs_server_networks", options["networks"]
    )


def check_inventory(_: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the exports and mounts of all hosts."""
    hosts = cluster["groups"].get("all", [])
    return site_storage_problems(hosts, cluster["nfs_servers"], cluster["nfs_clients"], cluster["hostvars"])


INVENTORY = {"nfs_server_exports, nfs_client_mounts, storage_mounts_entries": check_inventory}
