"""Checks the options of the slurm role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.access.accounts import slurm_users
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem
from ...plugins.plugin_utils.slurm.cluster_problems import external_database_problems, gpu_problems, slurm_problems
from ...plugins.plugin_utils.slurm.cluster_roles import cluster_name_problems, role_problems
from ...plugins.plugin_utils.slurm.combined_job_scripts import script_problems
from ...plugins.plugin_utils.slurm.conf_lines import inventory_node
from ...plugins.plugin_utils.slurm.new_nodes import new_node_problems

if TYPE_CHECKING:
    from collections.abc import Sequence


# Options that have the same value on all hosts, with their defaults.
SITE_OPTIONS: dict[str, Any] = {
    "slurm_partitions": [],
    "slurm_config": {},
    "slurm_topology": {},
    "slurm_accounts": [],
    "slurm_qos": [],
    "slurm_account_groups": [],
    "slurm_admin_groups": [],
    "slurm_checks_partition": "",
    "slurm_database_external": {},
    "slurm_external": {},
    "slurm_repository": {},
    "slurm_spank_plugins": [],
    "slurm_state_shared": False,
    "slurm_state_directory": "",
}
_ROLES = ("controllers", "databases", "logins")


def check(options: Known, _: Known) -> list[Problem]:
    """Return the problems with the cluster name and the job scripts."""
    return cluster_name_problems("slurm_cluster_name", options.get("cluster_name")) + script_problems(
        options.get("job_scripts") or {}
    )


def check_new_nodes(nodes: Sequence[str], cluster: Known) -> list[Problem]:
    """Return new nodes that Slurm has under another name; `cluster` contains the arguments of `new_node_problems`."""
    return new_node_problems(nodes, **cluster)


def check_roles(_: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the hosts that run Slurm's daemons."""
    if not cluster["accounting"]:
        return []
    return role_problems(cluster["controllers"], cluster["databases"], cluster["logins"], cluster["compute"])


def check_declaration(options: Known, cluster: Known) -> list[Problem]:
    """Return the problems in the cluster declaration."""
    hostvars = cluster["hostvars"]
    return slurm_problems(
        # Omit the hardware, which a separate check covers.
        nodes=[{**inventory_node(name, hostvars[name]), "hardware": ""} for name in cluster["compute"]],
        catalogue={"": {}},
        groups=cluster["groups"],
        partitions=options["slurm_partitions"],
        config=options["slurm_config"],
        topology=options["slurm_topology"],
        accounting={
            **{key: options[f"slurm_{key}"] or [] for key in ("accounts", "qos", "account_groups", "admin_groups")},
            "users": slurm_users(options["users_accounts"]),
            "identity_source": str(options["identity_source"]),
        },
        checks_partition=str(options["slurm_checks_partition"] or ""),
        state_shared=bool(options["slurm_state_shared"]),
        state_directory=str(options["slurm_state_directory"] or ""),
        **{name: cluster[name] for name in _ROLES},
    )


def check_database(options: Known, cluster: Known) -> list[Problem]:
    """Return the problems with an external database."""
    has_password = any(each.name == "slurm_database_password" for each in cluster["settings"])
    external = options["slurm_database_external"]
    return external_database_problems(external, cluster["databases"], has_password=has_password)


def check_external(options: Known, _: Known) -> list[Problem]:
    """Return the problems with a Slurm that the site built."""
    external, key = options["slurm_external"], "slurm_external"
    paths = {name: str(external[name]) for name in ("prefix", "config") if external.get(name)}
    problems = [
        make_problem([], f"{key}.{name}", f"{path} is not an absolute path", "use an absolute path")
        for name, path in paths.items()
        if not path.startswith("/")
    ]
    if external and not paths.get("prefix"):
        problems.append(make_problem([], f"{key}.prefix", "is not set", "set the directory that contains bin/scontrol"))
    if paths.get("prefix", "").rstrip("/") in {"", "/usr"} and "prefix" in paths:
        remedy = "remove slurm_external, because the distribution's packages provide this Slurm"
        problems.append(make_problem([], f"{key}.prefix", "is the prefix of the distribution's packages", remedy))
    problems += [
        make_problem([], other, f"is set, but busbar does not install the Slurm of {key}", "remove one of them")
        for other in ("slurm_repository", "slurm_spank_plugins")
        if external and options[other]
    ]
    return problems


def check_gpus(_: Known, cluster: Known) -> list[Problem]:
    """Return the problems in MIG layouts and in Slurm's GPU configuration."""
    nodes = [inventory_node(name, cluster["hostvars"][name]) for name in cluster["compute"]]
    return gpu_problems(nodes, cluster["catalogue"])


INVENTORY = {
    "preflight_accounting": check_roles,
    "slurm_*, users_accounts": check_declaration,
    "slurm_database_external": check_database,
    "slurm_external, slurm_repository, slurm_spank_plugins": check_external,
    "mig_layout, slurm_gres_mode, slurm_node_*, hardware, hardware_profiles_extra": check_gpus,
}
