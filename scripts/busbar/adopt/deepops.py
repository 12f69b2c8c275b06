"""Writes a draft site from the configuration directory of DeepOps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.other_toolkits import foreign_group

from busbar.adopt import deepops_nodes, deepops_slurm, deepops_users
from busbar.adopt.appliance import adopt_appliance
from busbar.adopt.draft import ASK, CARRIED, DEFAULT, LEFT, Draft, Vaulted
from busbar.adopt.reading import Reading
from busbar.adopt.source import Source, unresolved
from busbar.adopt.steps import adopt_connection, adopt_hardware, adopt_hosts, adopt_rest
from busbar.adopt.tables import PLACEHOLDERS, data
from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_ROTATE = "busbar provision rotate_secrets -e rotate_secrets=munge"
_KUBERNETES = ("kube", "k8s", "etcd")


def adopt_deepops(folder: Path, release: str, hardware: Sequence[str], inventories: Sequence[str] = ()) -> Draft:
    """Return a draft of the cluster that a configuration directory of DeepOps describes.

    Args:
        folder: the directory, `config` in DeepOps' documentation.
        release: release of DeepOps, whose defaults apply.
        hardware: profiles, each as `NAME` for all compute nodes or `HOSTS=NAME`.
        inventories: files of the inventory; by default the one in the folder.

    Raises:
        UsageError: the release or a profile is unknown, or the directory is not one of DeepOps.
    """
    releases = data()["releases"]
    if release not in releases:
        message = f"DeepOps {release} is not known; known releases: {', '.join(releases)}"
        raise UsageError(message)
    source = Source(folder, inventories)
    if source.group("control") and source.group("compute"):
        return adopt_appliance(source, hardware)
    masters = source.group("slurm-master")
    if not masters or not source.group("slurm-node"):
        found = ", ".join(group for group in source.groups if group not in {"all", "ungrouped"}) or "none"
        message = (
            f"{folder} is not a DeepOps Slurm cluster configuration: its inventory needs hosts in the groups "
            f"slurm-master and slurm-node (its groups: {found})"
        )
        raise UsageError(message)
    draft = Draft(f"the DeepOps directory {folder.resolve().name} (release {release})", "")
    of_release = {"deepops_release": release, "deepops_kill_wait": releases[release]["kill_wait"]}
    reading = Reading(source, draft, release, masters[0], {**data()["defaults"], **of_release})
    named = reading.value("slurm_cluster_name")
    if unresolved(named):
        named = reading.defaults["slurm_cluster_name"]
        reading.note("slurm_cluster_name", ASK, "depends on facts of the hosts: set cluster_name to that of slurm.conf")
    draft.cluster = str(named)
    reading.note_if_set("slurm_cluster_name", CARRIED, "cluster_name")
    _groups(reading)
    adopt_connection(reading)
    adopt_hardware(reading, hardware)
    _munge(reading)
    _vaulted_files(reading)
    deepops_nodes.gpus(reading)
    deepops_nodes.mig(reading)
    deepops_slurm.adopt_slurm(reading)
    deepops_nodes.storage(reading)
    deepops_users.users(reading)
    deepops_nodes.services(reading)
    deepops_nodes.containers(reading)
    adopt_rest(reading, "deepops")
    adopt_hosts(reading, "deepops")
    return draft


def _groups(reading: Reading) -> None:
    """Put the hosts into busbar's groups, and keep the site's own groups."""
    source, draft = reading.source, reading.draft
    masters, nodes, order = source.group("slurm-master"), source.group("slurm-node"), list(source.hosts)
    several = reading.on("slurm_enable_ha")
    if not several and masters[1:]:
        others = fold_for_slurm(masters[1:])
        question = f"slurm_enable_ha is off, so only {masters[0]} is a controller: what do {others} do?"
        draft.note("group slurm-master", ASK, question)
    reading.note_if_set("slurm_enable_ha", CARRIED if several else DEFAULT, "group slurm_controller")
    logins = source.group("slurm-login") or masters[:1]
    if both := [host for host in logins if host in nodes]:
        draft.note("group slurm-login", LEFT, f"{fold_for_slurm(both)}: a compute node cannot be a login node")
    monitored = reading.on("slurm_enable_monitoring")
    reading.note_if_set("slurm_monitoring_group", CARRIED if monitored else LEFT, "group monitoring")
    draft.groups = {
        "slurm_controller": masters if several else masters[:1],
        "slurm_database": masters[:1],
        "slurm_login": [host for host in logins if host not in nodes],
        "slurm_compute": sorted(nodes, key=order.index),
        "monitoring": source.select(str(reading.value("slurm_monitoring_group"))) if monitored else [],
    }
    members = {*source.group("slurm-cluster"), *source.group("slurm-nfs"), *masters, *nodes, *logins}
    members |= set(draft.groups["monitoring"])
    draft.hosts = {name: {} for name in order if name in members}
    for group, hosts in source.groups.items():
        _own_group(draft, group, hosts)
    if rest := [host for host in source.groups.get("ungrouped", []) if host not in members]:
        draft.note("hosts", LEFT, f"{fold_for_slurm(rest)}: in no group")


def _own_group(draft: Draft, group: str, hosts: list[str]) -> None:
    """Keep a group of the site if all its hosts are in the cluster, else note it."""
    outside = [host for host in hosts if host not in draft.hosts]
    if group.startswith(_KUBERNETES):
        if hosts:
            draft.note(f"group {group}", LEFT, f"{fold_for_slurm(hosts)}: busbar manages no Kubernetes")
    elif group in {"all", "ungrouped"} or group.startswith("slurm"):
        return
    elif outside:
        draft.note(f"group {group}", LEFT, f"{fold_for_slurm(outside)}: not part of the Slurm cluster")
    elif hosts and not foreign_group(group) and re.fullmatch(r"[A-Za-z_]\w*", group):
        draft.groups[group] = hosts


def _kind(value: object) -> str:
    """Describe a secret without its text."""
    if value is None or value in PLACEHOLDERS:
        return "the published placeholder"
    undefined = "a template whose variables this directory does not define"
    return "encrypted" if isinstance(value, Vaulted) else undefined if unresolved(value) else "a password in clear text"


def _munge(reading: Reading) -> None:
    """Report the munge key, which DeepOps derives from a password, and carry an encrypted database password."""
    value = reading.source.value(reading.master, "slurm_password")
    text = f"DeepOps derives the munge key from slurm_password and the name {reading.draft.cluster}. "
    if value is None or value in PLACEHOLDERS:
        text += f"The password is the published placeholder, so the key is public: run `{_ROTATE}` after takeover"
    else:
        text += (
            "Put /etc/munge/munge.key of the controller into secrets/munge.key before takeover, and run "
            f"`{_ROTATE}` afterwards"
        )
    reading.draft.note("munge key", ASK, text, reading.source.where("slurm_password"))
    reading.leave("slurm_password", f"{_kind(value)}; the munge key is a secret of the site")
    value = reading.source.value(reading.master, "slurm_db_password")
    if isinstance(value, Vaulted):
        reading.carry("slurm_db_password", {"slurm_database_password": value})
    reading.leave("slurm_db_password", f"{_kind(value)}; busbar makes a new one and sets it at takeover")


def _vaulted_files(reading: Reading) -> None:
    known = {*reading.source.groups, *reading.source.short}
    for path in reading.source.vaulted:
        owner = path.stem if path.parent.name in {"group_vars", "host_vars"} else path.parent.name
        why = f" and belongs to {owner}, which is not in the inventory, so only -e @FILE reads it"
        question = f"the file is encrypted{'' if owner in known else why}: which of its variables does the site need?"
        reading.draft.note(reading.source.shown(path), ASK, question)
