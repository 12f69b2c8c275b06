"""Groups and variables of other toolkits for Slurm clusters, with their equivalents in busbar.

Sources: inventories and defaults of NVIDIA/deepops, dell/omnia, stackhpc/ansible-slurm-appliance,
oracle-quickstart/oci-hpc and the galaxyproject.slurm role, as of November 2026.
"""

from __future__ import annotations

from typing import NamedTuple

DEEPOPS, OMNIA, APPLIANCE, OCI = "DeepOps", "Omnia", "ansible-slurm-appliance", "oci-hpc"
_HEAD = ("slurm_controller", "slurm_database")


class Foreign(NamedTuple):
    """A name that another toolkit uses.

    Attributes:
        toolkit: name of the toolkit, or '' for a common word that several toolkits use.
        ours: the equivalent groups of busbar or, for a variable, a description of the options; may be empty.
    """

    toolkit: str
    ours: tuple[str, ...]


# Group names of other toolkits, with underscores instead of hyphens.
_GROUPS = {
    "slurm_master": Foreign(DEEPOPS, _HEAD),
    "slurm_node": Foreign(f"{DEEPOPS} and {OMNIA}", ("slurm_compute",)),
    "slurm_nfs": Foreign(DEEPOPS, ("nfs_server",)),
    "slurm_nfs_client": Foreign(DEEPOPS, ("nfs_client",)),
    "slurm_metric": Foreign(DEEPOPS, ("monitoring",)),
    "slurm_control_node": Foreign(OMNIA, _HEAD),
    "login_node": Foreign(OMNIA, ("slurm_login",)),
    "nfs_node": Foreign(OMNIA, ("nfs_server",)),
    "openhpc": Foreign(APPLIANCE, ("slurm_controller", "slurm_compute", "slurm_login")),
    "openondemand": Foreign(APPLIANCE, ("portal",)),
    "compute_configured": Foreign(OCI, ("slurm_compute",)),
    "compute_to_add": Foreign(OCI, ("slurm_compute",)),
    "slurm_backup": Foreign(OCI, ("slurm_controller",)),
    "slurmservers": Foreign("galaxyproject.slurm", ("slurm_controller",)),
    "slurmdbdservers": Foreign("galaxyproject.slurm", ("slurm_database",)),
    "slurmexechosts": Foreign("galaxyproject.slurm", ("slurm_compute",)),
    "slurmctld": Foreign("", ("slurm_controller",)),
    "slurmdbd": Foreign("", ("slurm_database",)),
    "slurmd": Foreign("", ("slurm_compute",)),
    **dict.fromkeys(
        ("control", "controller", "controllers", "head", "headnode", "manager", "master"), Foreign("", _HEAD)
    ),
    **dict.fromkeys(("database", "db", "mariadb", "mysql"), Foreign("", ("slurm_database",))),
    **dict.fromkeys(
        ("compute", "compute_node", "compute_nodes", "computes", "slurm_worker", "slurm_workers", "worker", "workers"),
        Foreign("", ("slurm_compute",)),
    ),
    **dict.fromkeys(("login", "login_nodes", "logins"), Foreign("", ("slurm_login",))),
    **dict.fromkeys(("nfs", "nfsserver"), Foreign("", ("nfs_server",))),
    **dict.fromkeys(("alertmanager", "grafana", "monitor", "prometheus"), Foreign("", ("monitoring",))),
    **dict.fromkeys(("jupyterhub", "ondemand"), Foreign("", ("portal",))),
    **dict.fromkeys(("auth_server", "ldap"), Foreign("", ("ldap_server",))),
    "pxe": Foreign("", ("pxe_server",)),
}

_VARIABLES: dict[str, dict[str, str]] = {
    DEEPOPS: {
        "allow_user_set_gpu_clocks": "",
        "autofs_map": "storage_mounts_entries",
        "autofs_mount": "storage_mounts_entries",
        "chrony_config_server": "hosts_time_servers",
        "chrony_install": "",
        "chrony_timezone": "hosts_timezone",
        "cuda_version": "cuda_versions",
        "deepops_set_hostname": "hosts_name",
        "docker_install": "",
        "enroot_cache_path": "enroot_path",
        "enroot_config": "enroot_settings",
        "enroot_data_path": "enroot_path",
        "enroot_environ_config_files": "",
        "enroot_environ_config_files_dgx": "",
        "enroot_runtime_path": "enroot_path",
        "gpu_clock_lock": "gpu_settings_values",
        "gpu_clock_reset": "gpu_settings_values",
        "hosts_add_ansible_managed_hosts_groups": "",
        "install_dcgm": "dcgm_source",
        "mig_manager_config": "mig_layout",
        "mig_manager_hooks": "mig_services",
        "mig_manager_profile": "mig_layout",
        "nfs_client_group": "the group nfs_client",
        "nfs_exports": "nfs_server_exports",
        "nfs_mounts": "nfs_client_mounts or storage_mounts_entries",
        "nfs_server_group": "the group nfs_server",
        "nhc_config_template": "",
        "nvidia_driver_force_install": "",
        "nvidia_driver_ubuntu_use_open_kernel_modules": "nvidia_driver_kernel_modules",
        "openmpi_version": "lmod_openmpi_version",
        "pyxis_run_tmpfs_size": "",
        "rsyslog_server_hostname": "journal_remote_receiver",
        "sftp_enabled": "",
        "slurm_allow_ssh_user": "slurm_pam_adopt_users",
        "slurm_autodetect_nvml": "slurm_gres_mode",
        "slurm_cgroup_conf_template": "slurm_cgroup_config",
        "slurm_cluster_install_cuda": "cuda_source",
        "slurm_cluster_install_nvidia_driver": "nvidia_driver_source",
        "slurm_cluster_install_openmpi": "lmod_openmpi",
        "slurm_conf_symlink": "",
        "slurm_conf_template": "slurm_config",
        "slurm_configure_etc_hosts": "",
        "slurm_db_password": "slurm_database_password",
        "slurm_db_username": "slurm_database_user",
        "slurm_dbd_conf_template": "slurm_dbd_config",
        "slurm_default_job_timelimit": "params.DefaultTime of slurm_partitions",
        "slurm_enable_container_registry": "",
        "slurm_enable_ha": "a second host in slurm_controller",
        "slurm_enable_monitoring": "the group monitoring",
        "slurm_enable_nfs_client_nodes": "the group nfs_client",
        "slurm_enable_nfs_server": "the group nfs_server",
        "slurm_enable_rsyslog_client": "journal_remote_enabled",
        "slurm_enable_rsyslog_server": "journal_remote_enabled",
        "slurm_gres_conf_template": "slurm_gres_config",
        "slurm_ha_state_save_location": "slurm_state_directory",
        "slurm_health_check_program": "node_health_check",
        "slurm_install_enroot": "enroot_enabled",
        "slurm_install_hpcsdk": "",
        "slurm_install_lmod": "lmod_enabled",
        "slurm_install_nhc": "node_health_check",
        "slurm_install_prefix": "",
        "slurm_install_pyxis": "pyxis_enabled",
        "slurm_login_on_compute": "",
        "slurm_manage_gpus": "hardware",
        "slurm_max_job_timelimit": "params.MaxTime of slurm_partitions",
        "slurm_monitoring_group": "the group monitoring",
        "slurm_password": "",
        "slurm_pyxis_version": "pyxis_version",
        "slurm_restrict_node_access": "slurm_pam_adopt",
        "slurm_user_home": "",
        "slurm_username": "",
        "slurm_version": "slurm_repository",
        "software_extra_packages": "",
        "ssh_client_hardening": "",
        "ssh_max_auth_retries": "MaxAuthTries of ssh_server_config",
        "ssh_server_password_login": "ssh_password_login",
        "ssh_use_pam": "",
        "users": "users_accounts",
    },
    OMNIA: {"mariadb_password": "slurm_database_password", "slurm_installation_type": ""},
    APPLIANCE: {
        "alertmanager_slack_integration": "alertmanager_receivers",
        "basic_users_users": "users_accounts",
        "nfs_configurations": "nfs_server_exports and nfs_client_mounts",
        "openhpc_cluster_name": "cluster_name",
        "openhpc_config": "slurm_config",
        "openhpc_config_extra": "slurm_config",
        "openhpc_nodegroups": "hardware",
        "openhpc_partitions": "slurm_partitions",
        "openhpc_slurmdbd_mysql_password": "slurm_database_password",
        "openhpc_state_save_location": "slurm_state_directory",
        "openhpc_user_partitions": "slurm_partitions",
        "prometheus_storage_retention": "prometheus_retention_time",
        "prometheus_storage_retention_size": "prometheus_retention_size",
        "prometheus_web_external_url": "prometheus_external_url",
        "slurm_exporter_port": "",
        "sshd_password_authentication": "ssh_password_login",
    },
    OCI: {
        "cluster_monitoring": "the group monitoring",
        "compute_username": "ansible_user",
        "healthchecks": "node_health_check",
        "nfs_source_IP": "storage_mounts_entries",
        "nfs_source_path": "storage_mounts_entries",
        "nfs_target_path": "storage_mounts_entries",
        "rdma_enabled": "rdma_source",
        "rdma_netmask": "rdma_ipoib_interfaces",
        "rdma_network": "rdma_ipoib_interfaces",
        "shared_home": "users_home_base",
        "slurm_backup_hostname": "a second host in slurm_controller",
        "slurm_federation": "",
        "slurm_nfs_path": "slurm_state_directory",
    },
}
_PREFIXES = {
    "appliances_": APPLIANCE,
    "basic_users_": APPLIANCE,
    "block_devices_": APPLIANCE,
    "deepops_": DEEPOPS,
    "openhpc_": APPLIANCE,
    "openondemand_": APPLIANCE,
}


def foreign_group(name: str) -> Foreign | None:
    """Return the toolkit of a group and the equivalent groups of busbar, or None for an unknown name."""
    return _GROUPS.get(name.lower().replace("-", "_"))


def foreign_variable(name: str) -> Foreign | None:
    """Return the toolkit of a variable and its equivalent in busbar, or None for an unknown name."""
    for toolkit, names in _VARIABLES.items():
        if name in names:
            return Foreign(toolkit, tuple(filter(None, [names[name]])))
    toolkit = next((toolkit for prefix, toolkit in _PREFIXES.items() if name.startswith(prefix)), "")
    return Foreign(toolkit, ()) if toolkit else None


def adoption(toolkit: str) -> str:
    """Return a hint about the command that converts the inventory of a toolkit, or ''."""
    known = any(name in toolkit for name in (DEEPOPS, APPLIANCE))
    return "`busbar adopt deepops DIR OUT` writes a site from this inventory (docs/adopt.md); or " if known else ""
