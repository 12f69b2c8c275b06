"""Checks the options of the role nfs_client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.preflight.storage import home_problems, storage_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...plugins.module_utils.common.problems import Problem


def check(options: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return the invalid `mounts`; `cluster` has the `host`, the `servers` that export, and `hostvars`."""
    servers, hostvars = cluster["servers"], cluster["hostvars"]
    return storage_problems(
        options["mounts"], "nfs_client_mounts", cluster["host"], servers=servers, variables=hostvars
    )


def check_homes(options: Mapping[str, Any], cluster: Mapping[str, Any]) -> list[Problem]:
    """Return the hosts whose homes are on no storage that the inventory declares, where users work on several."""
    hosts = list(dict.fromkeys([*cluster["logins"], *cluster["compute"]]))
    has_users = bool(options["users_accounts"]) or options["identity_source"] != "declared"
    servers, clients, hostvars = cluster["nfs_servers"], cluster["nfs_clients"], cluster["hostvars"]
    return home_problems(hosts, servers, clients, hostvars, has_users=has_users)


INVENTORY = {"users_home_base, nfs_client_mounts, nfs_server_exports, storage_mounts_entries": check_homes}
