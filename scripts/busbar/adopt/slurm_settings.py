"""Translates settings of an existing slurm.conf into options of busbar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.accounting_limits import QOS_LIMITS, canonical_limits
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm, unfold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_keys import SLURM_CONF_KEYS

from busbar.adopt.draft import ASK, CARRIED, DEFAULT, LEFT
from busbar.adopt.slurm_conf import PARTITION_KEYS, pairs_of, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from busbar.adopt.draft import Draft
    from busbar.adopt.slurm_conf import SlurmConf

# Keys that busbar sets and Slurm's default differs from: null removes them.
_OURS = (
    *("ReturnToService", "EnforcePartLimits", "SelectTypeParameters", "PrologFlags", "MpiDefault", "LaunchParameters"),
    *("PriorityType", "PropagateResourceLimitsExcept", "RebootProgram", "UnkillableStepTimeout", "DefMemPerCPU"),
    *("JobAcctGatherType", "AccountingStorageEnforce", "AccountingStorageTRES", "ProctrackType", "TaskPlugin"),
)
# Values that busbar sets anyway or that are Slurm's defaults; lists in busbar's notation.
_SAME: dict[str, tuple[str, ...]] = {
    "SlurmctldPort": ("6817",),
    "SlurmdPort": ("6818",),
    "SlurmUser": ("slurm",),
    "AuthType": ("auth/munge",),
    "SwitchType": ("switch/none",),
    "ProctrackType": ("proctrack/cgroup",),
    "PropagateResourceLimitsExcept": ("MEMLOCK",),
    "SchedulerType": ("sched/backfill",),
    "SelectType": ("select/cons_tres",),
    "TaskPlugin": ("affinity,cgroup", "cgroup,affinity", "task/affinity,task/cgroup", "task/cgroup,task/affinity"),
    "JobAcctGatherType": ("jobacct_gather/cgroup",),
    "JobCompType": ("jobcomp/none",),
    "MpiDefault": ("pmix",),
    "GresTypes": ("gpu",),
    "PriorityType": ("priority/multifactor",),
    "SlurmctldTimeout": ("120",),
    "SlurmdTimeout": ("300",),
    "InactiveLimit": ("0",),
    "MinJobAge": ("300",),
    "KillWait": ("30",),
    "WaitTime": ("0",),
    "SlurmctldDebug": ("3", "info"),
    "SlurmdDebug": ("3", "info"),
    "AccountingStorageType": ("accounting_storage/slurmdbd",),
}
# Keys that have a dedicated option, and the conversion to its value.
_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "StateSaveLocation": ("slurm_state_directory", str),
    "SlurmctldPort": ("slurm_port", lambda text: int(text) if text.isdecimal() else text),
    "HealthCheckInterval": ("node_health_interval", int),
    "HealthCheckNodeState": ("node_health_states", lambda text: text.upper().split(",")),
}
_BY_GROUPS = ("ClusterName", "SlurmctldHost")
# Keys that belong to the installation, or that other options of busbar replace.
_LEFT = {
    "PluginDir": "a Slurm that the site built: no busbar option sets its path",
    "SlurmctldPidFile": "systemd follows the daemon",
    "SlurmdPidFile": "systemd follows the daemon",
    "SlurmctldLogFile": "logs are in the directory of the packages",
    "SlurmdLogFile": "logs are in the directory of the packages",
    "AccountingStorageUser": "slurmdbd ignores it",
    "AccountingStoragePass": "slurmdbd ignores it",
    "AccountingStorageHost": "the group slurm_database",
    "AccountingStoragePort": "slurm_dbd_config.DbdPort",
    "HealthCheckProgram": "the health check of busbar replaces it (node_health_check)",
    "Prolog": "the scripts of busbar replace it; add your own with slurm_job_scripts",
    "Epilog": "the scripts of busbar replace it; add your own with slurm_job_scripts",
}


def adopt_global(draft: Draft, config: Mapping[str, Any], where: str) -> None:
    """Set the options for the global keys of a slurm.conf, so that missing keys keep Slurm's default.

    Args:
        draft: receives options and notes.
        config: all keys of the file.
        where: the file, for the notes.
    """
    kept: dict[str, Any] = dict.fromkeys(key for key in _OURS if key not in config)
    for key, value in config.items():
        text, name = str(value), f"slurm.conf {key}"
        if {text, text.lower()} & {*_SAME.get(key, ())}:
            draft.note(name, DEFAULT, text, where)
            # busbar falls back to pmi2 only if the key is not set.
            kept |= {key: value} if key == "MpiDefault" else {}
        elif key in _OPTIONS:
            option, convert = _OPTIONS[key]
            draft.carry(name, {option: convert(text)}, where)
        elif key in _LEFT:
            draft.note(name, LEFT, _LEFT[key], where)
        elif key == "SlurmUser" or not canonical_key(key):
            why = f"busbar runs Slurm as slurm, not {text}" if key == "SlurmUser" else "Slurm does not know this key"
            draft.note(name, ASK, why, where)
        elif key not in _BY_GROUPS:
            kept[key] = value
            draft.note(name, CARRIED, f"slurm_config: {text}", where)
    draft.variables["slurm_config"] = {**draft.variables.get("slurm_config", {}), **kept}


def adopt_nodes(draft: Draft, conf: SlurmConf, where: str) -> None:
    """Set features, weight and other keys of nodes."""
    strangers = [name for name in conf.nodes if name not in draft.hosts]
    if strangers:
        question = f"nodes of slurm.conf that are not in the inventory: {fold_for_slurm(strangers)}"
        draft.note("slurm.conf NodeName", ASK, question, where)
    for name, found in conf.nodes.items():
        if name in strangers:
            continue
        host, gone = draft.hosts[name], {"Feature", "Weight", "State", "Gres"}
        if features := found.get("Feature"):
            host["slurm_node_features"] = features.split(",")
        if weight := found.get("Weight"):
            host["slurm_node_weight"] = int(weight)
        host["slurm_node_params"] = {key: _number(quoted(value)) for key, value in found.items() if key not in gone}
    draft.note("slurm.conf NodeName", CARRIED, "slurm_node_params, slurm_node_features, slurm_node_weight", where)


def partition_from(name: str, keys: Mapping[str, Any], compute: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Return an item of slurm_partitions, and its problems.

    Args:
        name: name of the partition.
        keys: its keys as slurm.conf or a variable names them; `extra` and `settings` are strings of `Key=value` pairs.
        compute: the compute nodes.
    """
    params: dict[str, Any] = {}
    problems: list[str] = []
    entry: dict[str, Any] = {"name": name}
    for given, value in _flat(keys):
        key = canonical_key({"priority": "PriorityTier"}.get(given.lower(), given), PARTITION_KEYS.split())
        if key == "Nodes":
            wanted, known = str(value).strip('"'), list(compute)
            if wanted.upper() == "ALL":
                continue
            chosen = unfold_hosts(value if isinstance(value, list) else wanted)
            if lost := [host for host in chosen if host not in known]:
                problems.append(f"partition {name} names {fold_for_slurm(lost)}, which are not compute nodes")
            entry["nodes"] = fold_for_slurm([host for host in chosen if host in known])
        elif key == "Default":
            entry |= {"default": True} if str(value).lower() in {"yes", "true"} else {}
        elif key == "State" and str(value).upper() == "UP":
            continue
        elif key:
            params[key] = _number(value)
        elif given not in {"description", "name"}:
            problems.append(f"partition {name} has {given}={value}, which is not a key of slurm.conf")
    return {**entry, **({"params": params} if params else {})}, problems


def limits_from(item: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return an item of slurm_qos or slurm_accounts, and its problems.

    Args:
        item: `name`, and limits as keys or in strings of `Key=value` pairs.
    """
    entry: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    problems: list[str] = []
    for given, value in _flat(item):
        plain = given.lower()
        if value is None or plain == "users":
            continue
        if plain in {"name", "description", "organization", "parent", "default_qos", "fairshare"}:
            entry[plain] = value
        elif plain == "priority":
            entry[plain] = int(value)
        elif plain in {"flags", "preempt", "qos"}:
            entry[plain] = value if isinstance(value, list) else str(value).split(",")
        else:
            try:
                canonical_limits({given.replace("_", ""): value}, _LIMITS)
            except ValueError:
                problems.append(f"{item.get('name')}: {given}={value} is not a limit that busbar sets")
            else:
                limits[given.replace("_", "")] = _number(value)
    named = {"name": str(entry.pop("name", "")), **entry}
    return {**named, **({"limits": limits} if limits else {})}, problems


_LIMITS = {**QOS_LIMITS, "MaxJobs": "count", "MaxJobsAccrue": "count", "MaxSubmitJobs": "count"}


def _flat(keys: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a mapping, those below `params` and `limits`, and those of strings of `Key=value` pairs."""
    for key, value in keys.items():
        if key in {"extra", "settings", "params", "limits", "options"} and isinstance(value, (str, dict)):
            yield from dict(pairs_of(value)[0] if isinstance(value, str) else value).items()
        else:
            yield key, value


def canonical_key(name: str, known: Iterable[str] = SLURM_CONF_KEYS) -> str:
    """Return the known key for a name in any case, with or without underscores, or ''."""
    plain = {"features": "feature"}.get(name.lower(), name.replace("_", "").lower())
    return next((key for key in known if key.lower() == plain), "")


def _number(value: Any) -> Any:  # noqa: ANN401 - a value of YAML
    return int(value) if isinstance(value, str) and re.fullmatch(r"0|[1-9]\d*", value) else value
