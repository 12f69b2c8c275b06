"""Writes a draft site from an environment of stackhpc/ansible-slurm-appliance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm

from busbar.adopt.deepops_users import users
from busbar.adopt.draft import ASK, CARRIED, Draft, Vaulted
from busbar.adopt.nfs import adopt_exports, adopt_mounts
from busbar.adopt.reading import Reading
from busbar.adopt.slurm_settings import partition_from
from busbar.adopt.source import is_on, resolved
from busbar.adopt.steps import adopt_connection, adopt_hardware, adopt_hosts, adopt_rest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from busbar.adopt.source import Source

_PARTITIONS = ("openhpc_partitions", "openhpc_user_partitions", "openhpc_slurm_partitions")
_CLUSTER = "read the running cluster (busbar adopt cluster)"


def adopt_appliance(source: Source, hardware: Sequence[str]) -> Draft:
    """Return a draft of the cluster of an environment.

    Args:
        source: the inventory.
        hardware: profiles, each as `NAME` for all compute nodes or `HOSTS=NAME`.
    """
    draft = Draft(f"the environment {source.folder.resolve().name} of ansible-slurm-appliance", "")
    people = resolved(source.value(source.group("control")[0], "basic_users_users")) or []
    known = {
        "users": [
            {**user, "username": user["name"], "name": user.get("comment"), "ssh_key": user.get("public_key")}
            for user in people
            if user.get("state") != "absent"
        ]
    }
    reading = Reading(source, draft, "", source.group("control")[0], known)
    name = next((name for name in ("openhpc_cluster_name", "cluster_name") if reading.has(name)), "")
    draft.cluster = str(reading.value(name) or "openhpc")
    reading.note_if_set(name, CARRIED, "cluster_name")
    every = [host for group in ("control", "login", "compute", "prometheus", "nfs") for host in source.group(group)]
    draft.hosts = {host: {} for host in source.hosts if host in every}
    draft.groups = {
        "slurm_controller": source.group("control"),
        "slurm_database": source.group("control")[:1],
        "slurm_login": source.group("login"),
        "slurm_compute": source.group("compute"),
        "monitoring": source.group("prometheus"),
    }
    adopt_connection(reading)
    adopt_hardware(reading, hardware)
    _slurm(reading)
    _nfs(reading)
    users(reading)
    if people:
        reading.note("basic_users_users", CARRIED, "users_accounts")
    adopt_rest(reading, "appliance")
    adopt_hosts(reading, "appliance")
    return draft


def _slurm(reading: Reading) -> None:
    """Set keys of slurm.conf, node groups and partitions, and the database's password if it is encrypted."""
    draft = reading.draft
    draft.note("slurm.conf", ASK, f"the role stackhpc.openhpc has defaults that are not in the inventory: {_CLUSTER}")
    for name in ("openhpc_config_default", "openhpc_config", "openhpc_config_extra"):
        if found := resolved(reading.value(name)):
            reading.carry(name, {"slurm_config": found})
    if not reading.has("openhpc_state_save_location"):
        draft.variables["slurm_state_directory"] = "/var/spool"
    members = _node_groups(reading)
    name = next((name for name in _PARTITIONS if resolved(reading.value(name))), "")
    made = [_partition(reading, name, item, members) for item in resolved(reading.value(name)) or []]
    if made:
        reading.carry(name, {"slurm_partitions": made})
    password = reading.value("openhpc_slurmdbd_mysql_password")
    if isinstance(password, Vaulted):
        reading.carry("openhpc_slurmdbd_mysql_password", {"slurm_database_password": password})
    reading.leave("openhpc_slurmdbd_mysql_password", "a secret: busbar makes a new one and sets it at takeover")


def _node_groups(reading: Reading) -> dict[str, list[str]]:
    """Set the keys of nodes from openhpc_nodegroups, and return the hosts of each group."""
    hosts, members = reading.draft.hosts, dict[str, list[str]]()
    for group in resolved(reading.value("openhpc_nodegroups")) or []:
        name = str(group["name"])
        members[name] = _hosts_of(reading, name)
        for option, kept in (
            ("slurm_node_features", list(group.get("features") or [])),
            ("slurm_node_params", dict(group.get("node_params") or {})),
        ):
            for host in members[name] if kept else []:
                hosts[host][option] = kept
        if group.get("gres"):
            reading.note("openhpc_nodegroups", ASK, f"compare gres of {name} with hardware: {group['gres']}")
        reading.note("openhpc_nodegroups", CARRIED, "slurm_node_features, slurm_node_params")
    return members


def _hosts_of(reading: Reading, group: str) -> list[str]:
    return reading.source.group(f"{reading.draft.cluster}_{group}") or reading.source.group(group)


def _partition(reading: Reading, name: str, item: dict[str, Any], members: dict[str, list[str]]) -> dict[str, Any]:
    """Return an item of slurm_partitions; without node groups, it uses the group with its name."""
    groups = item.get("nodegroups") or [group["name"] for group in item.get("groups") or []] or [item["name"]]
    hosts = [host for group in groups for host in members.get(group) or _hosts_of(reading, group)]
    keys: dict[str, Any] = {"nodes": fold_for_slurm(hosts)} if hosts else {}
    keys |= {key: item[given] for key, given in (("default", "default"), ("max_time", "maxtime")) if given in item}
    keys["params"] = item.get("partition_params") or {}
    entry, problems = partition_from(str(item["name"]), keys, reading.draft.groups["slurm_compute"])
    for problem in problems if hosts else [f"partition {item['name']}: its nodes are not in the inventory"]:
        reading.note(name, ASK, problem)
    return entry


def _nfs(reading: Reading) -> None:
    """Set exports and mounts from nfs_configurations, whose conditions differ between hosts."""
    source, draft = reading.source, reading.draft
    exports: dict[str, dict[str, Any]] = {}
    servers: list[str] = []
    mounts: dict[str, list[dict[str, Any]]] = {}
    for host in draft.hosts:
        for item in resolved(source.value(host, "nfs_configurations")) or []:
            enabled = item.get("nfs_enable") or {}
            if is_on(enabled.get("server")):
                servers += [host] if host not in servers else []
                options = item.get("nfs_export_options", "rw,secure,root_squash")
                exports[item["nfs_export"]] = {"path": item["nfs_export"], "options": f"*({options})"}
            if is_on(enabled.get("clients")) and item.get("nfs_client_mnt_point"):
                mounts.setdefault(host, []).append(
                    {
                        "mountpoint": item["nfs_client_mnt_point"],
                        "server": item.get("nfs_server"),
                        "path": item["nfs_export"],
                        "options": item.get("nfs_client_mnt_options", ""),
                    }
                )
    where = source.where("nfs_configurations")
    if servers:
        adopt_exports(draft, servers, list(exports.values()), where)
    if mounts:
        adopt_mounts(draft, source, mounts, where)
    if servers or mounts:
        reading.note("nfs_configurations", CARRIED, "nfs_server_exports, nfs_client_mounts, storage_mounts_entries")
