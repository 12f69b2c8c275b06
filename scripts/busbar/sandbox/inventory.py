"""The inventory of a sandbox, for busbar and plain `ansible-playbook -i`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from busbar.sandbox.image import ADMIN
from busbar.sandbox.own_files import write_own
from busbar.sandbox.state import SHARED, STATE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from busbar.sandbox.state import Sandbox

COMMAND = "sandbox up"
MAX_NODE_CORES = 4
# Seconds without the primary controller after which its backup takes over.
TAKEOVER_S = 15


def hosts(sandbox: Sandbox) -> dict[str, Any]:
    """Return the content of hosts.yml: groups select features, one address per node."""
    address = {node: {"ansible_host": sandbox.address(node)} for node in sandbox.nodes}
    compute = {node: address[node] for node in sandbox.compute_nodes}
    return {
        "all": {
            "children": {
                "slurm_controller": {"hosts": {node: address[node] for node in sandbox.controller_nodes}},
                "slurm_database": {"hosts": {node: {} for node in _database_hosts(sandbox)}},
                "slurm_login": {"hosts": {"login": address["login"]}},
                "slurm_compute": {"children": {"sandbox_gpu": {}}},
                "sandbox_gpu": {"hosts": compute, "vars": {"hardware": "sandbox_gpu"}},
                "monitoring": {"hosts": {"ctl": {}}},
                "nfs_server": {"hosts": {"ctl": {}}, "vars": {"nfs_server_exports": [{"path": SHARED}]}},
                "nfs_client": {"hosts": {"login": {}}, "children": {"slurm_compute": {}}},
            }
        }
    }


def _database_hosts(sandbox: Sandbox) -> list[str]:
    """Return the hosts for slurmdbd: the only controller, or hosts that stay up if the primary fails."""
    return ["login", *sandbox.controller_nodes[1:]] if len(sandbox.controller_nodes) > 1 else sandbox.controller_nodes


def site_variables(sandbox: Sandbox, public_key: str) -> dict[str, Any]:
    """Return the content of group_vars/all: typical settings of a small cluster."""
    key = sandbox.path / "ssh" / "id_ed25519"
    known = sandbox.path / "ssh" / "known_hosts"
    trusted = sandbox.path / "secrets" / "known_hosts"
    backup = len(sandbox.controller_nodes) > 1
    gpu = {"count": sandbox.gpus, "device_files": f"/dev/nvidia[0-{sandbox.gpus - 1}]"}
    if sandbox.gpus == 1:
        gpu["device_files"] = "/dev/nvidia0"
    profile: dict[str, Any] = {"cores_per_socket": max(1, min(MAX_NODE_CORES, os.cpu_count() or 1))}
    profile |= {"gpu": gpu if sandbox.gpus else None}
    return {
        "ansible_user": ADMIN,
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": f"-o IdentitiesOnly=yes -o UserKnownHostsFile='{known} {trusted}'",
        "ansible_python_interpreter": "/usr/bin/python3",
        "cluster_name": sandbox.name,
        "hardware_profiles_extra": {"sandbox_gpu": profile},
        "hosts_time_servers": ["ctl"],
        "hosts_time_upstream": [],
        # The nodes share the host's kernel, so they only store the settings.
        "hosts_sysctl_apply": False,
        "users_groups": [{"name": "research", "gid": 2000}],
        "users_accounts": [
            {
                "name": "alice",
                "uid": 2001,
                "group": "research",
                "comment": "Alice",
                "authorized_keys": [public_key],
                "slurm": {"account": "research"},
            },
            {"name": "bob", "uid": 2002, "group": "research", "comment": "Bob", "slurm": {"account": "research"}},
        ],
        "slurm_accounts": [{"name": "research", "description": "Research"}],
        "slurm_partitions": [{"name": "batch", "default": True}],
        # Detect failed nodes quickly, because users and tests wait for it.
        "slurm_config": {"SlurmdTimeout": 90, **({"SlurmctldTimeout": TAKEOVER_S} if backup else {})},
        **({"slurm_state_directory": f"{STATE}/slurmctld", "slurm_state_shared": True} if backup else {}),
        # Simulated GPUs fail only on purpose, and each check uses cores that all nodes share.
        "node_health_interval": 3600,
        # Clock and swap belong to this machine.
        "node_health_severities": {"clock": "OFF", "swap": "OFF"},
        "validation_backend": "mpi",
        # The GPUs are simulated, so neither a driver nor software that needs one is installed.
        "nvidia_driver_source": "none",
        "cuda_source": "none",
        "dcgm_source": "none",
        "nvidia_container_toolkit_source": "none",
        # Short intervals, because tests wait for metrics.
        "prometheus_scrape_interval": "5s",
        "prometheus_evaluation_interval": "5s",
        "slurm_metrics_interval": 10,
        "slurm_metrics_timeout": 5,
        # Containers use this machine's clock and cannot determine whether it is synchronised.
        "prometheus_alerts": {"ClockNotSynchronised": {"enabled": False}},
        "dcgm_exporter_source": "none",
        "grafana_source": "none",
        # Containers cannot serve or mount NFS. A shared folder makes job output visible on the submitting node.
        "storage_backend": "bind",
        "users_home_base": f"{SHARED}/home",
    }


def write_inventory(sandbox: Sandbox, public_key: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """Write busbar's files in the inventory folder and return the folder; the user's files stay unchanged."""
    folder = sandbox.path / "inventory"
    variables = folder / "group_vars" / "all"
    variables.mkdir(parents=True, exist_ok=True)
    write_own(folder / "hosts.yml", hosts(sandbox), COMMAND, say)
    write_own(variables / "zz_sandbox.yml", site_variables(sandbox, public_key), COMMAND, say)
    return folder
