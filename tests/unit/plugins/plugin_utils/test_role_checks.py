"""Tests that values which a role rejects on every host are reported from the inventory, with file and line."""

from __future__ import annotations

import fnmatch

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.options import Setting
from ansible_collections.busbar.cluster.plugins.plugin_utils.role_checks import (
    checks_of,
    roles_with_checks,
    value_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import SITE_VARIABLES, declared_options

SHA = "0" * 64


@pytest.mark.parametrize(
    ("name", "value", "key", "words"),
    [
        ("cluster_name", "My Cluster", "cluster_name", "letters"),
        ("hosts_domain", "exa mple", "hosts_domain", "cluster.example.org"),
        ("ssh_port", 99999, "ssh_port", "1 to 65535"),
        ("hosts_timezone", 5, "hosts_timezone", "timedatectl list-timezones"),
        ("hosts_timezone", "Europe/Berlinn", "hosts_timezone", "did you mean Europe/Berlin?"),
        ("hosts_timezone", "europe/berlin", "hosts_timezone", "did you mean Europe/Berlin?"),
        ("hosts_timezone", "Mars/Base", "hosts_timezone", "timedatectl list-timezones"),
        ("hosts_extra", [{"address": "300.1.1.1", "names": ["nas"]}], "hosts_extra[0]", "'300.1.1.1' is not an IP"),
        ("hosts_extra", [{"address": "10.0.0.5", "names": ["a b"]}], "hosts_extra[0]", "'a b' is not a host name"),
        ("hosts_extra", [{"address": "10.0.0.5", "names": []}], "hosts_extra[0]", "has no name"),
        ("hosts_sysctl", {"vm swappiness": 1}, "hosts_sysctl[vm swappiness]", "sysctl -a"),
        ("ssh_certificate_days", 0, "ssh_certificate_days", "below 1"),
        ("ssh_certificate_renew_days", 90, "ssh_certificate_renew_days", "not below ssh_certificate_days (90)"),
        ("tls_days", 0, "tls_days", "below 1"),
        ("tls_renew_days", 400, "tls_renew_days", "not below tls_days (365)"),
        ("nfs_client_timeout_s", -1, "nfs_client_timeout_s", "-1 is below 0"),
        ("users_home_base", "home", "users_home_base", "'home' is not an absolute path"),
        ("prometheus_storage_path", "metrics", "prometheus_storage_path", "'metrics' is not an absolute path"),
        ("node_health_paths", ["/", "tmp"], "node_health_paths", "'tmp' is not an absolute path"),
        ("dcgm_cuda", ["13", 14], "dcgm_cuda", "14"),
        (
            "gpudirect_gdrcopy_archives",
            [{"url": "u", "sha256": "x"}],
            "gpudirect_gdrcopy_archives[u]",
            "64 hexadecimal",
        ),
        ("miniforge_checksums", {"x86_64": "abc"}, "miniforge_checksums.x86_64", "SHA-256"),
        ("node_health_severities", {"gpu_cont": "OFF"}, "node_health_severities.gpu_cont", "did you mean gpu_count?"),
        ("node_health_severities", {"gpu": "LOW"}, "node_health_severities.gpu", "ISOLATE, RESET, MONITOR or OFF"),
        ("node_health_drain_percent", 150, "node_health_drain_percent", "at most 100"),
        ("node_health_timeout_s", 0, "node_health_timeout_s", "above 0"),
        ("cuda_versions", ["12.8", "twelve"], "cuda_versions", "'twelve'"),
        ("security_updates_spread_s", -1, "security_updates_spread_s", "below 0"),
        ("security_updates_exclude", ["maria*"], "security_updates_exclude", "maria*"),
        ("enroot_settings", {"ENROT_X": 1}, "enroot_settings", "ENROT_X"),
        ("lmod_modules", [{"name": "a b", "version": "1"}], "lmod_modules[0]", "a b"),
        ("pyxis_options", {"runtime_pth": "/x"}, "pyxis_options.runtime_pth", "not an argument of Pyxis"),
        ("slurm_job_scripts", {"Prologue": "/x"}, "slurm_job_scripts.Prologue", "not a key"),
        ("slurm_spank_plugins", [{"name": "x"}], "slurm_spank_plugins: x", "version"),
        ("journal_remote_max_use", "lots", "journal_remote_max_use", "20G"),
        ("scratch_path", "/", "scratch_path", "'/' is not a usable mount point"),
        ("scratch_path", "/tmp", "scratch_path", "is not a usable mount point"),  # noqa: S108 - refused
        ("scratch_path", "/var/tmp/jobs", "scratch_path", "is not a usable mount point"),  # noqa: S108 - refused
        ("scratch_path", "/etc", "scratch_path", "is not a usable mount point"),
        ("scratch_path", "/scratch dir", "scratch_path", "is not a usable mount point"),
        ("rdma_roce_mode", "v3", "rdma_roce_mode", "v1, v2"),
        ("rdma_ipoib_networks", ["10.0.0.0/33"], "rdma_ipoib_networks", "10.10.0.0/16"),
    ],
)
def test_invalid_value_is_reported_with_its_place(name: str, value: object, key: str, words: str) -> None:
    found = value_problems([Setting(name, value, "host gpu1", "gpu1", "hosts.yml:7")])
    assert found
    assert {(each["key"], *each["hosts"]) for each in found} == {(key, "gpu1")}
    assert all("hosts.yml:7" in each["problem"] for each in found)
    assert any(words in each["problem"] + each["remedy"] for each in found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hosts_timezone", "Etc/UTC"),
        ("hosts_timezone", ""),
        ("hosts_timezone", "{{ zone }}"),
        ("hosts_timezone", None),
        ("node_health_severities", {"gpu": "OFF", "xid": False}),
        ("node_health_drain_percent", "many"),
        ("cuda_versions", "{{ releases }}"),
        ("cuda_default_version", ""),
        ("gpudirect_gdrcopy_archives", [{"url": "u", "sha256": SHA}]),
        ("lmod_modules", {"of": "a wrong type"}),
        ("journal_remote_max_use", "20G"),
        ("hosts_extra", [{"address": "fd00::5", "names": ["nas", "nas.example.org"]}]),
        ("hosts_sysctl", {"-net.ipv4.conf.ib-0.rp_filter": 2, "kernel/numa_balancing": 0}),
        ("rdma_roce_tos", -1),
        ("node_health_paths", []),
        ("cluster_reports_dir", "~/reports"),
        ("own_variable", "Mars/Base"),
    ],
)
def test_other_values_and_wrong_types_are_not_reported_here(name: str, value: object) -> None:
    assert value_problems([Setting(name, value, "group all")]) == []


def test_related_options_are_checked_together_with_their_places() -> None:
    settings = [
        Setting("journal_remote_max_file_size", "30G", "group all", place="a.yml:1"),
        Setting("journal_remote_max_use", "20G", "group all", place="b.yml:2"),
    ]
    (found,) = value_problems(settings)
    assert (found["key"], "a.yml:1" in found["problem"]) == ("journal_remote_max_file_size", True)


def test_missing_companion_options_are_reported() -> None:
    settings = [Setting("grafana_source", "url", "group monitoring", place="a.yml:1")]
    found = {each["key"]: each["problem"] for each in value_problems(settings)}
    assert found.keys() == {"grafana_package_url", "grafana_package_sha256", "grafana_version"}
    assert all("a.yml:1" in each for each in found.values())
    more = {"grafana_package_url": "https://x/g.deb", "grafana_package_sha256": SHA, "grafana_version": "12.3.1"}
    assert value_problems([*settings, *(Setting(name, value, "group all") for name, value in more.items())]) == []
    assert value_problems([Setting("grafana_admin_password", "admin", "group all")]) == []


def test_value_of_a_wrong_type_hides_no_other_problem() -> None:
    settings = [Setting("node_health_severities", "x", "group all"), Setting("node_health_timeout_s", 0, "group all")]
    assert [each["key"] for each in value_problems(settings)] == ["node_health_timeout_s"]


def test_missing_option_is_reported_with_the_option_that_needs_it() -> None:
    settings = [
        Setting("grafana_port", 3000, "group all", place="a.yml:1"),
        Setting("grafana_source", "url", "group all"),
    ]
    assert all("a.yml" not in each["problem"] for each in value_problems(settings))
    assert {
        each["key"] for each in value_problems([*settings, Setting("grafana_version", "{{ x }}", "group all")])
    } == {
        "grafana_package_url",
        "grafana_package_sha256",
    }


def test_timezone_is_not_checked_without_a_list_of_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    assert value_problems([Setting("hosts_timezone", "Mars/Base", "group all")]) == []


@pytest.mark.parametrize("role", roles_with_checks())
def test_patterns_of_a_role_match_options(role: str) -> None:
    module, known = checks_of(role), {*declared_options(), *SITE_VARIABLES}
    patterns = [each for keys in getattr(module, "INVENTORY", {}) for each in keys.split(", ")]
    assert [each for each in patterns if not fnmatch.filter(known, each)] == []
    assert {*getattr(module, "SITE_OPTIONS", {})} <= known
    assert hasattr(module, "check") or patterns


def test_defaults_of_the_roles_are_valid() -> None:
    options = declared_options().items()
    settings = [Setting(name, option.spec.get("default"), "group all") for name, option in options]
    assert value_problems([each for each in settings if each.value is not None]) == []
