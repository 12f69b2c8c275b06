"""Check the options and hosts of a Slurm cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.slurm.account_groups import group_errors
from ...module_utils.slurm.accounting import declaration_errors
from ...module_utils.slurm.directory_group_rights import rights_errors
from ..engine.catalogue.builtin_profiles import unknown_hardware
from ..engine.catalogue.gres_conf import gres_problems
from ..engine.common.hostlist import unfold_hosts
from .accounting_problems import accounting_problems
from .cluster_roles import partition_problems, role_problems
from .combined_job_scripts import script_problems
from .conf_keys import nearest_key, unknown_keys
from .conf_lines import kinds, merge_config, node_mig, topology_lines
from .idle_checks_partition import checks_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .conf_lines import Node

# Slurm stores the interval in 16 bits. It kills a check after 60 s; node_health_timeout_s limits nvidia-smi.
_HEALTH_LIMITS = {"interval": (0, 65535), "timeout_s": (1, 20)}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HIGHEST_PORT = 65535
# DbdHost and DbdBackupHost.
_MOST_DATABASES = 2
_LOCAL_STATE = ("/var/lib/slurm/", "/var/spool/slurm")
# Seconds between two syncs of groups to accounting; an alert fires after two hours without a sync.
_INTERVAL = (60, 3600)


def slurm_problems(  # noqa: PLR0913 - one for each part of the declaration
    *,
    nodes: Sequence[Node],
    catalogue: Mapping[str, Any],
    controllers: Sequence[str],
    databases: Sequence[str],
    logins: Sequence[str],
    partitions: Sequence[Mapping[str, Any]],
    groups: Mapping[str, Sequence[str]],
    config: Mapping[str, Any] | None = None,
    topology: Mapping[str, Any] | None = None,
    accounting: Mapping[str, Any] | None = None,
    health: Mapping[str, Any] | None = None,
    job_scripts: Mapping[str, Any] | None = None,
    checks_partition: str = "",
    state_shared: bool = False,
    state_directory: str = "",
) -> list[Problem]:
    """Return all problems with the options and hosts of a Slurm cluster.

    Args:
        nodes: the compute nodes from `inventory_node`.
        catalogue: hardware profiles by name.
        controllers: hosts that run slurmctld, the primary first.
        databases: hosts that run slurmdbd; empty without accounting.
        logins: login nodes.
        partitions: items of `slurm_partitions`.
        groups: hosts of each inventory group.
        config: `slurm_config` of the site.
        topology: `slurm_topology` of the site.
        accounting: `accounts`, `users`, `qos` and `account_groups` of the site, its `identity_source`, and the removed
            option `slurm_users`.
        health: `interval` and `timeout_s` of the health check.
        job_scripts: `slurm_job_scripts`.
        checks_partition: name of the checks partition; empty for none.
        state_shared: whether the controllers share their state directory.
        state_directory: the state directory.
    """
    compute = [node["name"] for node in nodes]
    databases_wanted = databases or controllers  # accounting is optional
    problems = role_problems(controllers, databases_wanted, logins, compute)
    problems += _node_problems(nodes, catalogue)
    problems += _controller_problems(controllers, state_directory, shared=state_shared)
    if len(databases) > _MOST_DATABASES:
        problem, remedy = (
            "Slurm supports one backup slurmdbd, but the group has more hosts",
            "remove it from the group",
        )
        problems.append(make_problem(databases[_MOST_DATABASES:], "slurm_database", problem, remedy))
    problems += partition_problems(partitions, groups, compute)
    problems += checks_problems(partitions, checks_partition, config or {})
    problems += _config_problems(config or {})
    problems += _topology_problems(topology or {}, set(compute))
    problems += _accounting_problems(accounting or {}, databases)
    problems += _health_problems(health or {})
    problems += script_problems(job_scripts or {})
    return problems


def _node_problems(nodes: Sequence[Node], catalogue: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each node with unknown hardware or invalid GPU options."""
    return [
        make_problem([node["name"]], "hardware", *unknown_hardware(node["hardware"], catalogue))
        for node in nodes
        if node["hardware"] not in catalogue
    ] + gpu_problems(nodes, catalogue)


def gpu_problems(nodes: Sequence[Node], catalogue: Mapping[str, Any]) -> list[Problem]:
    """Return the problems with MIG layouts and GPU detection modes; nodes with unknown hardware are skipped."""
    return [
        problem
        for node, names in kinds(nodes)
        for profile in [catalogue.get(node["hardware"] or "")]
        if profile
        for problem in gres_problems(names, profile.get("gpu"), node_mig(node, profile), node["gres_mode"])
    ]


def _controller_problems(controllers: Sequence[str], directory: str, *, shared: bool) -> list[Problem]:
    """Return a problem if backup controllers cannot access the state directory of the primary one."""
    if len(controllers) <= 1:
        return []
    remedy = "move slurm_state_directory to a file system that all controllers mount, then set slurm_state_shared: true"
    if not shared:
        problem = "backup controllers need the state of the primary, but its directory is not declared as shared"
        return [make_problem(controllers, "slurm_state_shared", problem, remedy)]
    if directory.startswith(_LOCAL_STATE):
        problem = f"{directory} is a local directory (expected one that all controllers share)"
        return [make_problem(controllers, "slurm_state_directory", problem, remedy)]
    return []


def _config_problems(config: Mapping[str, Any]) -> list[Problem]:
    """Return the problems with `slurm_config`: unknown keys, and keys that break the role."""
    problems = []
    merged = {key.lower(): value for key, value in merge_config({}, config).items()}
    given = merged.get("slurmctldparameters")
    words = given if isinstance(given, (list, tuple)) else str(given or "").split(",")
    if "slurmctldparameters" in merged and "enable_configless" not in {str(word).strip() for word in words}:
        remedy = "add enable_configless to slurm_config.SlurmctldParameters"
        problem = "lacks enable_configless, so the nodes would receive no configuration"
        problems.append(make_problem([], "slurm_config.SlurmctldParameters", problem, remedy))
    for key, option in (("clustername", "slurm_cluster_name"), ("statesavelocation", "slurm_state_directory")):
        if key in merged:
            problem = f"is set by another option: {option}"
            problems.append(make_problem([], f"slurm_config.{key}", problem, f"set {option}"))
    for key in unknown_keys(map(str, config)):
        near = nearest_key(key)
        remedy = f"did you mean {near}?" if near else "remove it; man slurm.conf lists all keys"
        problems.append(make_problem([], f"slurm_config.{key}", "is not a key of slurm.conf", remedy))
    return problems


def _topology_problems(topology: Mapping[str, Any], compute: set[str]) -> list[Problem]:
    """Return the problems with switches and blocks: unknown or missing nodes, entries without content."""
    if not topology:
        return []
    try:
        topology_lines(topology)
        entries = [*(topology.get("switches") or []), *(topology.get("blocks") or [])]
        placed = {name for entry in entries if entry.get("nodes") for name in unfold_hosts(entry["nodes"])}
    except (KeyError, ValueError) as exc:
        return [make_problem([], "slurm_topology", str(exc), "correct the entry")]
    strangers, missing = sorted(placed - compute), sorted(compute - placed)
    problems = []
    if strangers:
        problem = "is in the topology, but is not a compute node"
        problems.append(make_problem(strangers, "slurm_topology", problem, "correct its nodes"))
    if missing:
        problem = "is a compute node, but not in a switch or block of the topology; Slurm could not place jobs there"
        problems.append(make_problem(missing, "slurm_topology", problem, "add it to a switch or block"))
    return problems


def _accounting_problems(accounting: Mapping[str, Any], databases: Sequence[str]) -> list[Problem]:
    """Return the problems with accounts, users, QOS and groups."""
    if accounting.get("slurm_users"):
        remedy = "`busbar provision preflight` prints the entries of users_accounts that replace it"
        return [make_problem([], "slurm_users", "was merged into users_accounts", remedy)]
    declared = {kind: [dict(item) for item in accounting.get(kind) or []] for kind in ("accounts", "users", "qos")}
    groups, admins = accounting.get("account_groups") or [], accounting.get("admin_groups") or []
    options = {
        "slurm_accounts": declared["accounts"],
        "slurm of users_accounts": _present_names(declared["users"]),
        "slurm_qos": declared["qos"],
        "slurm_account_groups, slurm_admin_groups": groups or admins,
    }
    if (named := ", ".join(option for option, items in options.items() if items)) and not databases:
        problem, remedy = "no host runs the accounting database", "add a host to the group slurm_database"
        return [make_problem([], named, problem, remedy)]
    if (groups or admins) and accounting.get("identity_source") == "declared":
        problem = "are set, but no host uses a directory (identity_source is declared)"
        remedy = "set identity_source to ldap_server or external, or add the key slurm to entries of users_accounts"
        return [make_problem([], "slurm_account_groups, slurm_admin_groups", problem, remedy)]
    interval = int(accounting.get("account_groups_interval") or _INTERVAL[0])
    if not _INTERVAL[0] <= interval <= _INTERVAL[1]:
        problem, remedy = f"{interval} s is out of range", f"set {_INTERVAL[0]} to {_INTERVAL[1]} s"
        return [make_problem([], "slurm_account_groups_interval", problem, remedy)]
    here = {kind: _present_names(declared[kind]) for kind in ("accounts", "qos")}
    errors = declaration_errors(declared["accounts"], declared["users"], declared["qos"])
    mapped = group_errors(groups, here["accounts"], here["qos"]) + rights_errors(admins)
    errors += [(f"slurm_{key}", problem) for key, problem in mapped]
    found = [make_problem([], key, problem, "correct the entry") for key, problem in errors]
    return found + accounting_problems(declared["accounts"], declared["users"], declared["qos"])


def external_database_problems(
    external: Mapping[str, Any], databases: Sequence[str], *, has_password: bool
) -> list[Problem]:
    """Return the problems with `slurm_database_external`; none if it is not set.

    Args:
        external: the option.
        databases: hosts that run slurmdbd.
        has_password: whether the site sets `slurm_database_password`.
    """
    if not external:
        return []
    key, host, port = "slurm_database_external", str(external.get("host") or ""), int(external.get("port", 3306))
    file = str(external.get("ca_file") or "")
    problems = []
    if not databases:
        problem = "is set, but no host runs slurmdbd"
        problems.append(make_problem([], key, problem, "add a host to the group slurm_database"))
    if len(databases) > 1 and host in _LOOPBACK:
        problem = f"{host} refers to a different database on each host of slurm_database"
        problems.append(
            make_problem(databases, f"{key}.host", problem, "use a name that all of them resolve to the same database")
        )
    if not 0 < port <= _HIGHEST_PORT:
        problems.append(make_problem([], f"{key}.port", f"{port} is not a port", "use 1 to 65535, or remove the key"))
    if file and not _is_authority(file):
        problem = f"{file} is not a PEM certificate file on the provisioning host"
        remedy = (
            "set the absolute path of the CA certificate of the database, such as {{ inventory_dir }}/database_ca.pem"
        )
        problems.append(make_problem([], f"{key}.ca_file", problem, remedy))
    if not has_password:
        problem = f"is not set, but busbar needs the password for {host}"
        remedy = "set it, for example from Ansible Vault (docs/security.md)"
        problems.append(make_problem([], "slurm_database_password", problem, remedy))
    return problems


def _is_authority(file: str) -> bool:
    """Return whether an absolute path names a file with a certificate."""
    try:
        return Path(file).is_absolute() and "-----BEGIN CERTIFICATE-----" in Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _present_names(items: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(item["name"]) for item in items if item.get("state", "present") == "present"]


def _health_problems(health: Mapping[str, Any]) -> list[Problem]:
    """Return the problems with the health check's interval and timeout."""
    return [
        make_problem(
            [], f"node_health_{key}", f"{health[key]} s is out of range", f"set a value from {least} to {most} s"
        )
        for key, (least, most) in _HEALTH_LIMITS.items()
        if key in health and not least <= int(health[key]) <= most
    ]
