"""Carries slurm.conf and its companions into the draft: keys, nodes, partitions, GRES, cgroup and topology."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.hostlist import expand_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import (
    profile_names,
    unknown_hardware,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm, unfold_hosts

from busbar.errors import UsageError
from busbar.paths import collection

from .draft import ASK, CARRIED, DEFAULT, LEFT, Draft
from .slurm_conf import SlurmConf, pairs_of, quoted, read_pairs, shape, split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from .cluster_source import HostReading

# States of node lines without a machine to log in to.
NO_MACHINE = ("CLOUD", "FUTURE")
# Keys that have a dedicated option.
OPTIONS = {"ClusterName": "slurm_cluster_name", "StateSaveLocation": "slurm_state_directory"}
_SHAPE_KEYS = {"CPUs", "Sockets", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore", "RealMemory", "NodeHostname"}
_SCRIPTS = ("Prolog", "Epilog", "TaskProlog", "TaskEpilog", "PrologSlurmctld", "EpilogSlurmctld")
_KEPT_FILES = (
    *("job_submit.lua", "cli_filter.lua", "scrun.lua", "job_container.conf", "mpi.conf", "acct_gather.conf"),
    *("helpers.conf", "burst_buffer.conf", "oci.conf", "topology.yaml", "namespace.yaml"),
)
_OTHERS = "stays on the hosts as it is; busbar does not change the file"


def carry_config(draft: Draft, conf: SlurmConf) -> None:
    """Carry the global keys."""
    own = role_vars()["__slurm_own_config"]
    for key, (value, where) in conf.keys.items():
        name = f"slurm.conf {key}"
        if key in OPTIONS:
            draft.carry(name, {OPTIONS[key]: value}, where)
        elif key == "SlurmctldPort" and value.isdigit():
            draft.carry(name, {"slurm_port": int(value)}, where)
        elif key in {"ControlMachine", "ControlAddr", "BackupController", "BackupAddr"}:
            draft.note(name, CARRIED, "slurm_config.SlurmctldHost", where)
        else:
            text: str | list[str] = [quoted(line) for line in value.split("\n")] if "\n" in value else quoted(value)
            if key == "SlurmctldParameters" and "enable_configless" not in value.split(","):
                text = f"{value},enable_configless"
                draft.note(name, LEFT, "busbar adds enable_configless: nodes fetch the file from the controller")
            config = draft.variables.setdefault("slurm_config", {})
            config[key] = text
            draft.note(name, *((DEFAULT, value) if own.get(key) == value else (CARRIED, "slurm_config")), where)
    _carry_controllers(draft, conf)
    carry_lines(draft, conf)
    if "Licenses" in conf.keys:
        question = f"{conf.value('Licenses')}: counts are static here; does a license server provide other counts?"
        draft.note("slurm.conf Licenses", ASK, question)


def carry_lines(draft: Draft, conf: SlurmConf) -> None:
    """Carry lines of objects that are not hosts of busbar."""
    lines = {
        "NodeSet": [f"{name} {_words(keys)}" for name, keys in conf.sets.items()],
        "NodeName": _fold_lines(
            f"{name} {_words(keys)}"
            for name, keys in conf.nodes.items()
            if keys.get("State", "").upper().startswith(NO_MACHINE)
        ),
        "DownNodes": [f"{each['DownNodes']} {_words(each, 'DownNodes')}" for each in conf.down],
    }
    for kind, texts in lines.items():
        if texts:
            draft.carry(f"slurm.conf {kind}", {"slurm_config": {kind: texts}})


def _carry_controllers(draft: Draft, conf: SlurmConf) -> None:
    """Carry addresses and ports of the controllers, and the state that several of them share."""
    if first := re.match(r"(\d+)-", conf.value("SlurmctldPort")):
        draft.carry("slurm.conf SlurmctldPort (first)", {"slurm_port": int(first[1])})
    if any(address for _, address in conf.controllers):
        hosts = [f"{name}({address})" if address else name for name, address in conf.controllers]
        draft.carry("slurm.conf SlurmctldHost", {"slurm_config": {"SlurmctldHost": hosts}})
    if len(conf.controllers) > 1:
        place = conf.value("StateSaveLocation", "/var/spool")
        draft.carry(f"StateSaveLocation {place} ({len(conf.controllers)} controllers)", {"slurm_state_shared": True})
        question = "do all controllers share it? busbar refuses a directory on the root file system of a controller"
        draft.note(f"StateSaveLocation {place}", ASK, question)


def _words(keys: Mapping[str, str], without: str = "") -> str:
    return " ".join(f"{key}={quoted(value)}" for key, value in keys.items() if key != without)


def _fold_lines(lines: Iterable[str]) -> list[str]:
    """Join node lines that differ only in the name."""
    alike: dict[str, list[str]] = {}
    for line in lines:
        name, _, rest = line.partition(" ")
        alike.setdefault(rest, []).append(name)
    return [f"{fold_for_slurm(names)} {rest}" for rest, names in alike.items()]


def carry_nodes(draft: Draft, conf: SlurmConf, machines: Mapping[str, str], hardware: Sequence[str]) -> None:
    """Set hardware, features, weight and further keys of nodes, so that the node lines stay as they are."""
    chosen = chosen_hardware(hardware, machines, machines)
    profiles: dict[tuple[int, ...], str] = {}
    extra: dict[str, Any] = {}
    for name in machines:
        keys, host = conf.nodes[name], draft.hosts[name]
        figures = shape(keys)
        params = _node_params(keys, figures, profiled=name in chosen)
        state = keys.get("State", "UNKNOWN").upper()
        if state != "UNKNOWN":
            draft.note(f"NodeName={name} State={state}", LEFT, "node lines of busbar have State=UNKNOWN")
        del figures["cpus"]
        host["hardware"] = chosen.get(name) or profiles.setdefault(tuple(figures.values()), f"adopted_{name}")
        if name not in chosen:
            extra[host["hardware"]] = {**figures, "nics": [{"count": 1, "gbps": 1, "rdma": False}], "busbw": {}}
        if params:
            host["slurm_node_params"] = params
        if "Feature" in keys:
            host["slurm_node_features"] = keys["Feature"].split(",")
        if "Weight" in keys:
            host["slurm_node_weight"] = int(keys["Weight"])
    draft.note("slurm.conf NodeName", CARRIED, "hardware, slurm_node_params, slurm_node_features, slurm_node_weight")
    if extra:
        draft.variables["hardware_profiles_extra"] = extra
        names = fold_for_slurm(name for name in machines if name not in chosen)
        question = (
            f"which hardware do {names} have? The profiles adopted_* have processors and memory of slurm.conf, an "
            "assumed 1 Gb/s NIC and no GPU (Gres is in slurm_node_params). Name a profile with --hardware, or complete "
            "them with `busbar inventory describe`, before busbar installs drivers and validates"
        )
        draft.note("hardware", ASK, question)


def gpus_found(draft: Draft, hosts: Mapping[str, HostReading], machines: Mapping[str, str]) -> None:
    """List the GPUs that nvidia-smi reports on nodes whose hardware is unknown."""
    found: dict[str, list[str]] = {}
    for name in machines:
        lines = hosts[name].commands.get("nvidia-smi", "").splitlines() if name in hosts else []
        models = [line.split(",")[0].strip() for line in lines if line.count(",") > 1]
        if models and draft.hosts[name]["hardware"].startswith("adopted_"):
            text = " and ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))
            found.setdefault(text, []).append(name)
    for text, names in found.items():
        question = f"{fold_for_slurm(names)} has {text} (nvidia-smi): name the profile with --hardware"
        draft.note("hardware", ASK, question)


def _node_params(keys: Mapping[str, str], figures: Mapping[str, int], *, profiled: bool) -> dict[str, Any]:
    """Return the keys of a node's line that do not follow from its hardware profile."""
    gone = _SHAPE_KEYS | {"Feature", "Weight", "State"}
    params: dict[str, Any] = {key: quoted(value) for key, value in keys.items() if key not in gone}
    if params.get("Boards") == "1":
        del params["Boards"]
    names = {"sockets": "Sockets", "cores_per_socket": "CoresPerSocket", "threads_per_core": "ThreadsPerCore"}
    if profiled:
        params |= {key: figures[name] for name, key in names.items()}
        params |= {"CPUs": figures["cpus"], "RealMemory": figures["memory_mb"]}
        params.setdefault("Gres", None)
    elif figures["cpus"] != prod(figures[name] for name in names):
        params["CPUs"] = figures["cpus"]
    return params


def chosen_hardware(
    given: Sequence[str],
    compute: Iterable[str],
    known: Collection[str],
    hosts_of: Callable[[str], Sequence[str]] = unfold_hosts,
) -> dict[str, str]:
    """Return the profile of each host that --hardware names.

    Args:
        given: the arguments, each `NAME`, `HOSTS=NAME` or `NAME=HOSTS`.
        compute: the hosts of an argument without hosts.
        known: all hosts.
        hosts_of: returns the hosts of `HOSTS`.

    Raises:
        UsageError: a profile or a host is unknown.
    """
    chosen: dict[str, str] = {}
    problems = []
    for text in given:
        names, _, profile = text.rpartition("=")
        if profile not in profile_names() and names in profile_names():
            names, profile = profile, names
        try:
            hosts = list(hosts_of(names) if names else compute)
        except ValueError as exc:
            problems.append(f"--hardware {text}: {exc}")
            continue
        if profile not in profile_names():
            problems.append(f"--hardware {text}: {'; '.join(unknown_hardware(profile, profile_names()))}")
        if strangers := [host for host in hosts if host not in known]:
            problems.append(f"--hardware {text}: the cluster has no host {', '.join(strangers)}")
        chosen |= dict.fromkeys(hosts, profile)
    if problems:
        raise UsageError("\n".join(problems))
    return chosen


def carry_partitions(draft: Draft, conf: SlurmConf, machines: Mapping[str, str]) -> None:
    """Carry partitions; those with nodes that are not hosts stay lines of slurm.conf."""
    partitions: list[dict[str, Any]] = []
    lines = []
    for name, keys in conf.partitions.items():
        members = conf.members(keys.get("Nodes", ""))
        params = {key: quoted(value) for key, value in keys.items() if key not in {"Nodes", "Default"}}
        default = keys.get("Default", "").lower() in {"yes", "true", "up", "1"}
        if not members or set(members) - set(machines):
            text = " ".join(f"{key}={quoted(value)}" for key, value in keys.items())
            lines.append(f"{name} {text}")
            question = "has nodes that are not hosts of busbar; it stays a line of slurm_config"
            if default:
                question = f"is the default partition and {question}, so that jobs keep their default"
            draft.note(f"PartitionName={name}", ASK, question)
            continue
        entry: dict[str, Any] = {"name": name}
        if default:
            entry["default"] = True
        if keys["Nodes"].upper() != "ALL" or len(machines) != len(conf.nodes):
            entry["nodes"] = fold_for_slurm(members)
        params.setdefault("State", "UP")
        if "MaxTime" not in params:
            params["MaxTime"] = "UNLIMITED"
        partitions.append(entry | {"params": params})
        draft.note(f"PartitionName={name}", CARRIED, "slurm_partitions")
        if "AllowGroups" in params:
            draft.note(
                f"PartitionName={name} AllowGroups", ASK, f"do all hosts know the groups {params['AllowGroups']}?"
            )
    draft.variables["slurm_partitions"] = partitions
    if lines:
        draft.carry("slurm.conf PartitionName", {"slurm_config": {"PartitionName": lines}})


def carry_gres(draft: Draft, hosts: Mapping[str, HostReading], controller: str, machines: Mapping[str, str]) -> None:
    """Carry over gres.conf: the controller's file, or the lines of each node if the nodes have different files."""
    texts = {host: each.files[path] for host, each in hosts.items() if (path := each.beside("gres.conf"))}
    own = {host: text for host, text in texts.items() if host in machines}
    shared = texts.get(controller) if len(set(texts.values())) == 1 or controller not in machines else None
    lines: list[str] = []
    profiled = {name for name in machines if not draft.hosts[name].get("hardware", "").startswith("adopted_")}
    for host, text in ({"": shared} if shared is not None else own).items():
        for _, line in split_lines(text or ""):
            pairs = [("Cores" if key.lower() == "cpus" else key, value) for key, value in pairs_of(line)[0]]
            if line.lower().startswith("include") or not pairs:
                draft.note("gres.conf", ASK, f"{line.strip()!r} was not read", host or controller)
                continue
            if host and not any(key.lower() == "nodename" for key, _ in pairs):
                pairs.insert(0, ("NodeName", host))
            names = {value for key, value in pairs if key.lower() == "nodename"}
            gpu = any(key.lower() == "name" and value == "gpu" for key, value in pairs)
            if gpu and names and set(expand_hosts(",".join(names))) <= profiled:
                draft.note("gres.conf", LEFT, f"{line.strip()}: the lines of the hardware profile replace it", host)
                continue
            lines.append(" ".join(f"{key}={quoted(value)}" for key, value in pairs))
    if lines:
        draft.carry("gres.conf", {"slurm_gres_config": lines})
    kinds = {
        str(host.get("slurm_node_params", {}).get("Gres"))
        for host in draft.hosts.values()
        if "gpu" in str(host.get("slurm_node_params", {}).get("Gres"))
    }
    for gres in sorted(kinds):
        types = {part.split(":")[1] for part in gres.split(",") if part.startswith("gpu:") and part.count(":") > 1}
        if len(types) > 1 or not types:
            nodes = [
                name for name, host in draft.hosts.items() if host.get("slurm_node_params", {}).get("Gres") == gres
            ]
            question = (
                f"{gres} on {fold_for_slurm(nodes)}: {'several types' if types else 'no type'} of GPU; which models?"
            )
            draft.note("Gres", ASK, question)


def carry_companions(
    draft: Draft, conf: SlurmConf, reading: HostReading, machines: Mapping[str, str], blockers: list[str]
) -> None:
    """Carry cgroup.conf and topology.conf, and copy files and scripts that stay on the hosts."""
    _carry_cgroup(draft, conf, reading)
    _carry_topology(draft, conf, reading, machines, blockers)
    wanted = {reading.beside(name) for name in _KEPT_FILES}
    wanted |= {path for path in reading.files if "plugstack" in path}
    for value in {line for key in _SCRIPTS for line in conf.value(key).splitlines()}:
        pattern = re.escape(value).replace(r"\*", "[^/]*")
        wanted |= {path for path in reading.files if re.fullmatch(pattern, path)}
    for path in sorted(wanted - {""}):
        draft.files[f"files{path}"] = reading.files[path]
        draft.note(path, CARRIED, f"{_OTHERS}. A copy is in files{path}")
        _remarks(draft, path, reading.files[path])
    # busbar's own scripts and health check are not added.
    draft.variables |= {"slurm_job_scripts": {}, "slurm_gpu_jobs": False, "node_health_check": "never"}


def _carry_cgroup(draft: Draft, conf: SlurmConf, reading: HostReading) -> None:
    """Carry cgroup.conf; keys that it does not have keep Slurm's default."""
    cgroup: dict[str, Any] = dict.fromkeys(role_vars()["__slurm_cgroup_config"])
    path = reading.beside("cgroup.conf")
    for pairs in read_pairs(reading.files.get(path, "")):
        for key, value in pairs.items():
            if key.lower() == "cgroupautomount":
                draft.note(f"cgroup.conf {key}", LEFT, "defunct since Slurm 21.08", path)
                continue
            cgroup = {name: each for name, each in cgroup.items() if name.lower() != key.lower()} | {key: value}
            draft.note(f"cgroup.conf {key}", CARRIED, f"slurm_cgroup_config: {value}", path)
    draft.variables["slurm_cgroup_config"] = cgroup
    if "cgroup" not in conf.value("ProctrackType") + conf.value("TaskPlugin"):
        draft.note("cgroup.conf", LEFT, "no constraint is active; decide separately whether to use cgroups")


def _carry_topology(
    draft: Draft, conf: SlurmConf, reading: HostReading, machines: Mapping[str, str], blockers: list[str]
) -> None:
    """Carry topology.conf."""
    path = reading.beside("topology.conf")
    found: dict[str, list[Any]] = {}
    for pairs in read_pairs(reading.files.get(path, "")):
        keys = {key.lower(): value for key, value in pairs.items()}
        if {"ALL", *conf.sets} & set(expand_hosts(keys.get("nodes", ""))):
            keys["nodes"] = fold_for_slurm(conf.members(keys["nodes"]))
        if "blocksizes" in keys:
            found["block_sizes"] = [int(size) for size in keys["blocksizes"].split(",")]
        for kind, option in (("switchname", "switches"), ("blockname", "blocks")):
            if kind in keys:
                below = {key: keys[key] for key in ("nodes", "switches") if key in keys}
                found.setdefault(option, []).append({"name": keys[kind], **below})
    entries = found.get("switches", []) + found.get("blocks", [])
    placed = {name for entry in entries for name in expand_hosts(entry.get("nodes", ""))}
    if placed - set(machines):
        strange = fold_for_slurm(sorted(placed - set(machines)))
        blockers.append(f"topology.conf places {strange}, which are not hosts; busbar would remove the file")
        draft.note("topology.conf", LEFT, "names nodes that are not hosts; a read-only draft has no topology", path)
    elif found:
        draft.carry("topology.conf", {"slurm_topology": found}, path)


def _remarks(draft: Draft, path: str, text: str) -> None:
    """List lines of scripts and of plugstack.conf that an admin should know."""
    for line in text.splitlines():
        words = line.split()
        if not words or line.lstrip().startswith("#"):
            continue
        if "plugstack" in path and words[0] in {"required", "optional"} and "pyxis" not in line:
            draft.note(f"plugstack {words[1]}", LEFT, "a SPANK plugin of the site; it stays", path)
        elif "plugstack" not in path and re.search(r"\b(pkill|killall)\b.*-u", line):
            draft.note(
                line.strip(),
                LEFT,
                "warning: it kills all processes of the user, including those of other jobs; it stays",
                path,
            )
        elif "plugstack" not in path and re.search(r"(^|\s)/(opt|site|sw|usr/local)/\S+", line):
            draft.note(line.strip(), LEFT, "a program of the site; it stays", path)


def role_vars() -> dict[str, Any]:
    """Return the variables of the role slurm."""
    return dict(yaml.safe_load((collection() / "roles/slurm/vars/main.yml").read_text(encoding="utf-8")))
