"""Checks the options of the nfs_client role."""

from __future__ import annotations

from ...plugins.plugin_utils.preflight.storage import home_problems, host_mount_problems
from ...plugins.plugin_utils.role_checks import Known, Problem


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid `mounts`; `cluster` contains the `host`, the `servers` with exports, and `hostvars`."""
    host, servers, hostvars = cluster["host"], cluster["servers"], cluster["hostvars"]
    return host_mount_problems(host, "nfs_client_mounts", options["mounts"], servers, hostvars)


def check_homes(options: Known, cluster: Known) -> list[Problem]:
    """Return the hosts whose homes are not on declared shared storage, if users work on several hosts."""
    hosts = list(dict.fromkeys([*cluster["logins"], *cluster["compute"]]))
    has_users = bool(options["users_accounts"]) or options["identity_source"] != "declared"
    servers, clients, hostvars = cluster["nfs_servers"], cluster["nfs_clients"], cluster["hostvars"]
    return home_problems(hosts, servers, clients, hostvars, has_users=has_users)


INVENTORY = {"users_home_base, nfs_client_mounts, nfs_server_exports, storage_mounts_entries": check_homes}
