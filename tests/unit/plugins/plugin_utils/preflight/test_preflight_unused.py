"""Tests of options without effect, with their requirement."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import Problem, is_advice
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight import unused_options as unused
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.groups import KNOWN_GROUPS
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.options import Setting
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.unused_options import unused_options
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_variables import declared_options

GROUPS = {"all": ["ctl", "gpu1"], "slurm_controller": ["ctl"], "slurm_database": ["ctl"], "monitoring": []}


def _shown(variables: dict[str, object], **groups: list[str]) -> list[Problem]:
    settings = [
        Setting(name, value, "group all", "", f"all.yml:{at}") for at, (name, value) in enumerate(variables.items())
    ]
    return unused_options(settings, {**GROUPS, **groups}, declared_options())


@pytest.mark.parametrize(
    ("name", "value", "needs", "remedy"),
    [
        ("lmod_openmpi", True, "shared_tree", "set lmod_enabled: true"),
        ("apptainer_config", {"a": 1}, "apptainer_enabled", "set apptainer_enabled: true"),
        ("pyxis_options", {"a": 1}, "pyxis_enabled", "set pyxis_enabled: true"),
        ("pyxis_enabled", True, "enroot_enabled", "set enroot_enabled: true"),
        ("backup_host", "ctl", "backup_enabled", "set backup_enabled: true"),
        ("prometheus_port", 9091, "a host in the group monitoring", "add a host to the group monitoring"),
        ("monitoring_tls", True, "a host in the group monitoring", "add a host to the group monitoring"),
        (
            "nfs_server_exports",
            [{"path": "/x"}],
            "a host in the group nfs_server",
            "add a host to the group nfs_server",
        ),
        (
            "nfs_client_mounts",
            [{"path": "/x"}],
            "a host in the group nfs_client",
            "add a host to the group nfs_client",
        ),
        ("jupyterhub_port", 1, "a host in the group portal", "add a host to the group portal"),
        ("sssd_uris", ["ldaps://x"], "identity_source: external", "set identity_source: ldap_server"),
        ("slurm_private_tmp_directory", "/x", "slurm_private_tmp", "set slurm_private_tmp: true"),
        ("cuda_cudnn_version", "9", "cuda_cudnn", "set cuda_cudnn: true"),
        ("validation_hpl_n", 9, "validation_stages: hpl", "add hpl to validation_stages"),
        ("tls_days", "x", "monitoring_tls", "set tls_enabled: true"),
    ],
)
def test_option_without_effect_is_shown_with_its_requirement(name: str, value: object, needs: str, remedy: str) -> None:
    (found,) = _shown({name: value})
    assert (found["key"], is_advice(found)) == (name, True)
    assert "has no effect" in found["problem"]
    assert needs in found["problem"]
    assert "all.yml:0" in found["problem"]
    assert remedy in found["remedy"]


@pytest.mark.parametrize(
    "variables",
    [
        {"lmod_openmpi": True, "shared_tree": "/shared"},
        {"lmod_openmpi": True, "lmod_openmpi_version": "4.1", "lmod_enabled": True},
        {"lmod_openmpi": True, "lmod_enabled": "{{ somewhere }}"},
        {"lmod_openmpi": False},
        {"apptainer_enabled": False, "grafana_source": "none", "journal_remote_enabled": False},
        {"dcgm_source": "none", "dcgm_exporter_source": "none"},
        {"nvidia_driver_reboot_timeout": 900, "scratch_per_job": True, "slurm_port": 6817},
        {"validation_hpl_n": 9, "validation_stages": ["node", "hpl"]},
        {"sssd_uris": ["ldaps://x"], "identity_source": "external"},
        {"cuda_nccl_version": "2"},
        {"own_variable": 1},
    ],
)
def test_option_with_an_effect_is_not_shown(variables: dict[str, object]) -> None:
    assert _shown(variables) == []


def test_options_of_a_role_disabled_by_its_source_are_shown() -> None:
    shown = _shown({"grafana_port": 3001, "prometheus_port": 1}, monitoring=["ctl"])
    assert [each["key"] for each in shown] == ["grafana_port"]
    assert _shown({"grafana_port": 3001, "grafana_source": "url"}, monitoring=["ctl"]) == []
    (found,) = _shown({"prometheus_port": 1, "prometheus_source": "none"}, monitoring=["ctl"])
    assert "prometheus_source" in found["problem"]


def test_rules_name_existing_options_and_groups() -> None:
    options = declared_options()
    for prefix, needs in unused._NEEDS.items():  # noqa: SLF001 - a table
        assert any(name.startswith(prefix) for name in options), prefix
        for need in needs:
            name, _, value = need.partition("=")
            group = need.removeprefix("a host in ")
            assert group in KNOWN_GROUPS if group != need else name in options, need
            choices = options[name].spec.get("choices") if value else None
            assert not choices or value in choices, need
