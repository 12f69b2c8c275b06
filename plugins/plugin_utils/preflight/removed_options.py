"""Removed options with their replacements: data for options.py."""

from __future__ import annotations

_AUDITD = "configure audit rules outside of busbar, for example with devsec.hardening.os_hardening (docs/security.md)"
_DATABASE = "set slurm_database_external to a database outside of the cluster (docs/backup.md)"
_MONITORING = (
    "use monitoring_tls, monitoring_basic_auth, monitoring_user and monitoring_password; "
    "tls_custom_certificate sets custom certificates"
)
_PROFILES = "describe other machines in hardware_profiles_extra"
# Maps a replacement to roles, and each role to option names without the role prefix.
_BY_ROLE = {
    "busbar determines the value": {
        "alertmanager": "timeout_s",
        "charliecloud": "cache_days",
        "cuda": "login",
        "dcgm": "timeout",
        "dcgm_exporter": "timeout_s",
        "enroot": "extra_packages",
        "examples": "all_reduce",
        "grafana": "dashboards_dir tls_group timeout_s",
        "home_quota": "interval",
        "jupyterhub": "tls_directory tls_group validation_file",
        "ldap_server": "tls_directory tls_group database_mb",
        "lmod": "cache_path cache_interval components",
        "monitoring": "password_rounds",
        "nfs_client": "boot_wait_s",
        "node_exporter": "timeout_s mount_timeout_s",
        "nvidia_driver": "fabric_timeout",
        "nvidia_repository": "state owner pins",
        "preflight": "architectures gpu_tolerance gpu_timeout_s secrets",
        "prometheus": "timeout_s",
        "scratch": "chunk_kb mkfs_options",
        "slurm": "registration_timeout",
        "slurm_metrics": "user database_directory database_user database_interval components",
        "slurm_spank": "directory",
        "storage_mounts": "declared_in boot_wait_s",
        "tls": "group",
        "validation": (
            "gemm_size gemm_wrong_node rdma_pairs_seconds hpl_nb training_batch training_hidden training_layers "
            "soak_gemm_seconds soak_iterations p2p_time_limit nvbandwidth_time_limit dcgm_diag_time_limit "
            "nvbandwidth_testcases step_factor mpi_wrong_rank mpi_ranks_per_node training_loss_tolerance"
        ),
    },
    "use nvidia_repository_urls: {doca: URL}": {"rdma": "doca_url"},
    "delete it; journal_remote_enabled: false removes the services": {"journal_remote": "state"},
    "set hardware": {
        "cuda": "hardware",
        "dcgm": "hardware",
        "dcgm_exporter": "hardware",
        "enroot": "hardware",
        "examples": "gpus_per_node cpus_per_rank",
        "gpu_settings": "hardware",
        "gpudirect": "hardware",
        "mig": "hardware",
        "node_exporter": "hardware hardware_name",
        "nvidia_container_toolkit": "hardware",
        "nvidia_driver": "hardware",
    },
    _PROFILES: {
        "hardware": "catalogue profiles",
        "preflight": "catalogue",
        "prometheus": "catalogue",
        "slurm": "hardware",
    },
    "passwords are always hidden": dict.fromkeys(
        (
            *("alertmanager", "backup", "dcgm_exporter", "enroot", "grafana", "jupyterhub", "ldap_server", "mariadb"),
            *("munge", "node_exporter", "prometheus", "slurm", "sssd", "tls", "users"),
        ),
        "secure_logging",
    ),
    _MONITORING: {
        "alertmanager": "cluster_tls web_config groups ca_file basic_auth",
        "dcgm_exporter": "web_config groups ca_file certificate_file key_file basic_auth",
        "grafana": "ca_file",
        "monitoring": (
            "ca_file certificate_file key_file tls_groups login web_config exporter_web_config client_config"
        ),
        "node_exporter": "web_config groups ca_file certificate_file key_file basic_auth",
        "prometheus": "web_config groups ca_file basic_auth scrape_access",
    },
    "set node_exporter_textfile_dir": {
        "backup": "textfile_dir",
        "node_health": "metrics_directory",
        "slurm": "account_groups_textfile_dir",
        "slurm_metrics": "textfile_dir",
        "ssh": "metrics_directory",
        "tls": "metrics_directory",
        "validation": "metrics_dir",
    },
    "busbar uses the hosts of the inventory": {"hosts": "cluster", "rdma": "hosts", "ssh": "cluster"},
    "busbar uses the hosts of the group slurm_controller": {
        "nvidia_driver": "slurm_controller",
        "preflight": "controllers",
        "validation": "controller",
    },
    "busbar uses the hosts of the group slurm_database": {
        "jupyterhub": "accounting",
        "preflight": "databases",
        "slurm_metrics": "accounting",
    },
    "busbar uses the hosts of the group slurm_compute": {
        "nvidia_driver": "cluster_hosts imex_hosts",
        "preflight": "compute",
    },
    "busbar uses the hosts of the group slurm_login": {"preflight": "logins", "ssh": "login_hosts"},
    "busbar uses the hosts of the group nfs_server": {
        "nfs_client": "servers",
        "preflight": "nfs_servers",
        "storage_mounts": "servers",
    },
    "set nfs_server_networks, or clients of an export": {"nfs_server": "clients hosts"},
    "busbar uses the hosts of the group nfs_client": {"preflight": "nfs_clients"},
    "busbar uses the hosts of the group monitoring": {"preflight": "monitoring"},
    "set prometheus_jobs": {"preflight": "monitoring_jobs"},
    "set shared_tree": dict.fromkeys(("examples", "lmod", "miniforge"), "shared_tree"),
    "set hosts_domain": {"ssh": "domain", "tls": "domain"},
    "set storage_backend": {"nfs_client": "backend", "nfs_server": "backend"},
    "set users_home_base": {"home_quota": "path", "storage_mounts": "home_base"},
    _AUDITD: {"auditd": "enabled immutable log_files log_mb"},
    _DATABASE: {
        "mariadb": "cluster_convert cluster_timeout_s",
        "slurm_database": "storage_backup_host storage_host",
    },
}
REMOVED = {
    **{
        f"{role}_{name}": remedy
        for remedy, roles in _BY_ROLE.items()
        for role, names in roles.items()
        for name in names.split()
    },
    "cuda_driver_version": "set nvidia_driver_version or nvidia_driver_branch",
    "dcgm_exporter_job_directory": "set slurm_gpu_jobs",
    "grafana_prometheus_others": "set grafana_datasources",
    "grafana_prometheus_scrape_interval": "set prometheus_scrape_interval",
    "hosts_profiling": "set user_profiling",
    "identity_replicas": "the directory has one server; for replicas use identity_source: external",
    "jupyterhub_hub_address": "set monitoring_address",
    "mariadb_cluster": f"one host of slurm_database runs MariaDB; {_DATABASE}",
    "miniforge_modules_path": "set lmod_modules_path",
    "monitoring_slurm_native": "set MetricsType in slurm_config",
    "node_health_dcgm_host": "set dcgm_address and dcgm_port",
    "nvidia_repository_key_file": "set nvidia_repository_key_files",
    "nvidia_repository_key_fingerprint": "set nvidia_repository_fingerprints",
    "nvidia_repository_key_url": "set nvidia_repository_key_urls",
    "nvidia_repository_url": "set nvidia_repository_urls",
    "preflight_accounts": "preflight checks users_accounts",
    "preflight_groups": "preflight checks users_groups",
    "preflight_partitions": "preflight checks slurm_partitions",
    "preflight_secrets_dir": "set cluster_secrets_dir",
    "preflight_slurm": "preflight checks the options of the role slurm",
    "scratch_job_scripts": "use scratch_per_job",
    "slurm_metrics_slurm_config": "set slurm_config",
    "slurm_spank_of_roles": "set slurm_spank_plugins",
    "ssh_authorized_keys_command": "set AuthorizedKeysCommand in ssh_server_config",
    "ssh_rotate_host_keys": "run busbar provision rotate_secrets -e rotate_secrets=ssh",
    "ssh_service_hosts": "set ssh_user_login and ssh_hostbased_accept",
    "tls_names": "set tls_subject_alt_names",
    "validation_storage_user": "the test runs as the user of the validation",
}
