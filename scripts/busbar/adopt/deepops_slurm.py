"""Converts what DeepOps and its forks configure for Slurm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.mig_layouts import gres_counts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_for_slurm

from busbar.adopt.cluster_conf import carry_lines
from busbar.adopt.draft import ASK, CARRIED, DEFAULT, LEFT, Vaulted
from busbar.adopt.slurm_conf import SlurmConf, quoted, read_slurm_conf
from busbar.adopt.slurm_settings import adopt_global, adopt_nodes, canonical_key, limits_from, partition_from
from busbar.adopt.source import resolved, unresolved
from busbar.adopt.tables import data, row_of, rows

if TYPE_CHECKING:
    from busbar.adopt.reading import Reading

_BLOCK = re.compile(r"\{%-?\s*(end)?(for|if|macro|filter|raw|block|call|with|autoescape)\b[^%]*%\}")
_LOOPED = re.compile(r"\{%[^%]*%\}\s*PartitionName|PartitionName=\{\{")
# Variables of DeepOps' role that are keys of slurm.conf.
_ROLE_KEYS = ("ReturnToService", "RebootProgram", "ResumeTimeout")
_CLUSTER = "read the running cluster (busbar adopt cluster)"


def adopt_slurm(reading: Reading) -> None:
    """Set the options of the role slurm from variables and from slurm.conf, the site's or the release's."""
    where, text = reading.template = _own_template(reading)
    conf, config = _conf(reading, text or data()["slurm_conf"], where)
    if not text:
        question = (
            f"DeepOps takes node lines from the facts of hosts: {_CLUSTER}, and compare the lines with `hardware`"
        )
        reading.draft.note("slurm.conf NodeName", ASK, question)
    _keys_from_variables(reading, config)
    several = len(reading.draft.groups["slurm_controller"]) > 1
    if several:
        reading.draft.variables["slurm_state_shared"] = True
        reading.note_if_set("slurm_ha_state_save_location", CARRIED, "slurm_state_directory")
    reading.leave("slurm_ha_state_save_location", "without effect, because slurm_enable_ha is off")
    adopt_global(reading.draft, config, where)
    if conf.nodes:
        adopt_nodes(reading.draft, conf, where)
        _compare_gres(reading, conf, where)
    carry_lines(reading.draft, conf)
    if not reading.has("slurm_cgroup_conf_template"):
        # DeepOps' cgroup.conf does not limit swap.
        reading.draft.carry("cgroup.conf", {"slurm_cgroup_config": {"ConstrainSwapSpace": None}})
    _partitions(reading, conf)
    _node_variables(reading)
    _access(reading)
    _external(reading)
    for name in ("slurm_qos", "slurm_accounts"):
        _accounting(reading, name)


def _external(reading: Reading) -> None:
    """Keep the Slurm that DeepOps built; its release comes from a variable or from DeepOps."""
    version = str(reading.value("slurm_version") or data()["releases"][reading.release]["slurm"])
    places = {"prefix": str(reading.value("slurm_install_prefix")), "config": str(reading.value("slurm_config_dir"))}
    reading.draft.carry(f"Slurm {version} of DeepOps", {"slurm_external": places})
    if re.match(r"(\d\d)\.(\d\d)", version) and version < "22.05":
        question = f"Slurm {version} is older than 22.05, the oldest release that busbar configures: upgrade it first"
        note = reading.note if reading.has("slurm_version") else reading.draft.note
        note("slurm_version", ASK, question)


def _own_template(reading: Reading) -> tuple[str, str]:
    """Return path and text of the site's own slurm.conf, or a description and '' without one."""
    name, standard = "slurm_conf_template", f"slurm.conf of DeepOps {reading.release}"
    given = reading.source.value(reading.master, name)
    if not given or given == "etc/slurm/slurm.conf":
        return standard, ""
    path = reading.file(re.sub(r"\{\{.*?\}\}/?", "", str(given)))
    if path is None:
        lost = f"{given} is not in this directory and replaces the settings that the draft has"
        reading.note(name, ASK, f"{lost}: {_CLUSTER}")
        return standard, ""
    reading.note(name, CARRIED, "slurm_config, slurm_partitions, slurm_node_params")
    return reading.source.shown(path), path.read_text(encoding="utf-8", errors="replace")


def _conf(reading: Reading, text: str, where: str) -> tuple[SlurmConf, dict[str, str]]:
    """Return the content of a slurm.conf and its keys, as far as it can be evaluated, and ask about the rest."""
    known, rest, unknown = "", "", []
    for first, part in _segments(text):
        rendered = reading.source.render(reading.master, part, reading.defaults)
        lines = part.splitlines() if rendered is None else []
        unknown += [f"{number}: {line.strip()}" for number, line in enumerate(lines, first) if "=" in line]
        known += rendered or ""
        rest += "".join(f"{line}\n" for line in lines if "{" not in line)
    conf, kept = (read_slurm_conf({"slurm.conf": each}, "slurm.conf") for each in (known, rest))
    for error in conf.errors:
        reading.draft.note("slurm.conf", ASK, error.partition(": ")[2], where)
    if unknown:
        shown = "; ".join(line[:60] for line in unknown)
        reading.draft.note("slurm.conf", ASK, f"these lines depend on facts of the hosts: {_CLUSTER}. {shown}", where)
    return conf, {key: quoted(setting.value) for key, setting in {**kept.keys, **conf.keys}.items()}


def _keys_from_variables(reading: Reading, config: dict[str, str]) -> None:
    """Take variables that are named like a key of slurm.conf, such as slurm_accounting_storage_enforce."""
    for name in reading.source.names():
        key = canonical_key(name.removeprefix("slurm_")) if name.startswith("slurm_") else ""
        if not key or (row_of(name, rows("deepops")) and key not in _ROLE_KEYS):
            continue
        value = reading.value(name)
        if reading.template[1]:
            used = re.search(rf"\b{name}\b", reading.template[1])
            why = "read by slurm_conf_template" if used else "without effect, because slurm_conf_template replaces it"
            reading.note(name, CARRIED if used else LEFT, why)
        elif value is None or unresolved(value) or isinstance(value, (dict, Vaulted)):
            reading.note(name, ASK, f"the value of {key} depends on facts or differs between hosts")
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            config[key] = quoted(text.strip('"'))
            reading.note(name, CARRIED, f"slurm_config.{key}")


def _compare_gres(reading: Reading, conf: SlurmConf, where: str) -> None:
    """Ask about GPUs that busbar would name or count differently."""
    for host, keys in conf.nodes.items():
        old = sorted(keys.get("Gres", "").split(","))
        if host not in reading.hardware or not old[0]:
            continue
        new = sorted(_gres(reading, host, reading.draft.hosts[host].get("mig_layout")))
        if old != new:
            question = f"{','.join(old)} becomes {','.join(new) or 'no GPU'}: do jobs ask for a type?"
            reading.draft.note(f"slurm.conf Gres of {host}", ASK, question, where)


def _gres(reading: Reading, host: str, layout: object) -> list[str]:
    counts = gres_counts(reading.gpu(host), layout)
    return [f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for kind, count in counts]


def _partitions(reading: Reading, conf: SlurmConf) -> None:
    """Set slurm_partitions from the site's variable of that name, else from slurm.conf."""
    draft, compute = reading.draft, reading.draft.groups["slurm_compute"]
    where, text = reading.template
    own = _entries(reading, "slurm_partitions") if not text else []
    made = [partition_from(str(entry["name"]), entry, compute) for entry in own]
    if own:
        where = reading.source.where("slurm_partitions")
        reading.note("slurm_partitions", CARRIED, "slurm_partitions, converted")
    else:
        quotes = {name: {key: quoted(value) for key, value in keys.items()} for name, keys in conf.partitions.items()}
        made = [partition_from(name, keys, compute) for name, keys in quotes.items()]
        _nodes_by_variable(reading, [entry for entry, _problems in made])
    for problem in (problem for _entry, problems in made for problem in problems):
        draft.note("slurm_partitions", ASK, problem, where)
    for name in ("slurm_max_job_timelimit", "slurm_default_job_timelimit"):
        if not own and (not text or name in text):
            reading.note_if_set(name, CARRIED, "params of slurm_partitions")
        reading.leave(name, "without effect, because the partitions have their own limits")
    if made:
        draft.variables["slurm_partitions"] = [entry for entry, _problems in made]
        names = ", ".join(entry["name"] for entry, _problems in made)
        draft.note("slurm.conf PartitionName", CARRIED, f"slurm_partitions: {names}", where)


def _nodes_by_variable(reading: Reading, partitions: list[dict[str, Any]]) -> None:
    """Select the nodes of partitions by the variable `partition_name` of hosts, where a template loops over them."""
    where, text = reading.template
    if not _LOOPED.search(text):
        return
    by_host = reading.by_host("partition_name")
    for entry in partitions:
        nodes = [host for host in reading.draft.groups["slurm_compute"] if str(by_host.get(host)) == entry["name"]]
        if nodes:
            entry["nodes"] = fold_for_slurm(nodes)
    how = "the draft takes partition_name of host_vars" if by_host else "evaluated here without facts of the hosts"
    question = f"the template selects nodes by an expression, {how}: compare with sinfo"
    reading.draft.note("slurm.conf PartitionName", ASK, question, where)
    reading.note_if_set("partition_name", CARRIED, "nodes of slurm_partitions")


def _node_variables(reading: Reading) -> None:
    """Set features, weights and shards that forks keep in host_vars."""
    hosts, compute = reading.draft.hosts, reading.draft.groups["slurm_compute"]
    for name in ("slurm_node_features", "slurm_node_weight"):
        for host, value in reading.by_host(name).items():
            if host in compute:
                hosts[host][name] = value.split(",") if isinstance(value, str) and "features" in name else value
                reading.note(name, CARRIED, name)
    shards = {
        host: int(value) for host, value in reading.by_host("slurm_gpu_shards").items() if host in compute and value
    }
    if shards:
        lines = [f"NodeName={host} Name=shard Count={count}" for host, count in shards.items()]
        reading.carry("slurm_gpu_shards", {"slurm_gres_config": lines})
    for host, count in shards.items():
        gres = _gres(reading, host, None)
        hosts[host].setdefault("slurm_node_params", {})["Gres"] = ",".join([*gres, f"shard:{count}"])
        if not gres:
            question = f"{host}: add the GPUs to slurm_node_params.Gres when its hardware is known"
            reading.note("slurm_gpu_shards", ASK, question)


def _access(reading: Reading) -> None:
    """Set who may log in to compute nodes."""
    if reading.has("slurm_restrict_node_access") and not reading.on("slurm_restrict_node_access"):
        reading.carry("slurm_restrict_node_access", {"slurm_pam_adopt": False})
    reading.note_if_set("slurm_restrict_node_access", DEFAULT, "slurm_pam_adopt is on for compute nodes")
    if users := resolved(reading.value("slurm_allow_ssh_user")):
        reading.carry("slurm_allow_ssh_user", {"slurm_pam_adopt_users": users})
    reading.note_if_set("slurm_allow_ssh_user", DEFAULT, "empty")


def _accounting(reading: Reading, name: str) -> None:
    """Convert slurm_qos or slurm_accounts of a fork."""
    entries = _entries(reading, name)
    made = [limits_from(entry) for entry in entries]
    for problem in (problem for _entry, problems in made for problem in problems):
        reading.note(name, ASK, problem)
    if made:
        reading.draft.variables[name] = [entry for entry, _problems in made]
        reading.note(name, CARRIED, f"{name}, converted")
    for entry in entries if name == "slurm_accounts" else []:
        for user in entry.get("users") or []:
            login = str(user.get("name") if isinstance(user, dict) else user)
            reading.members.setdefault(login, []).append(str(entry["name"]))


def _entries(reading: Reading, name: str) -> list[dict[str, Any]]:
    """Return a variable as a list of named entries; it may be a list, or a mapping from name to entry."""
    found = resolved(reading.value(name)) or []
    if isinstance(found, dict):
        return [{"name": key, **(value or {})} for key, value in found.items()]
    return [entry if isinstance(entry, dict) else {"name": str(entry)} for entry in found]


def _segments(text: str) -> list[tuple[int, str]]:
    """Split a template into parts that can be evaluated alone, each with its first line: lines, or whole blocks."""
    parts: list[tuple[int, str]] = []
    first, depth, current = 1, 0, ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        first = first if current else number
        current += line
        depth += sum(-1 if end else 1 for end, _kind in _BLOCK.findall(line))
        if depth <= 0 and not line.rstrip().endswith("\\"):
            parts.append((first, current))
            current, depth = "", 0
    return [*parts, (first, current)] if current else parts
