"""Tests of variables of roles that have not run yet, such as the packages of all roles for one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from templates import worked_out

TOP = Path(__file__).resolve().parents[4]
TRIXIE = {"distribution": "Debian", "distribution_major_version": "13", "os_family": "Debian", "architecture": "x86_64"}
LATER = yaml.safe_load((TOP / "playbooks/vars/later_packages.yml").read_text())
SITE = {
    "ansible_facts": TRIXIE,
    "groups": {
        "slurm_controller": ["ctl"],
        "slurm_database": ["ctl"],
        "monitoring": ["ctl"],
        "slurm_compute": ["gpu7"],
    },
    "all_roles_follow": True,
    "ansible_run_tags": ["all"],
    "ansible_skip_tags": [],
    "shared_tree": "/shared",
    "slurm_database_external": {},
    "slurm_external": {},
    "slurm_login_hosts": [],
    "slurm_controllers": ["ctl"],
}


def variable(name: str, role: str, more: str = "", **variables: object) -> Any:  # noqa: ANN401 - any value of the role
    text = f"{{{{ lookup('busbar.cluster.role_variable', '{name}', role='{role}'{more}) }}}}"
    return worked_out(text, **{"ansible_facts": TRIXIE, **variables})


def later(groups: list[str], /, **variables: object) -> list[str]:
    found = worked_out("{{ hosts_later_packages }}", **{**LATER, **SITE, "group_names": groups, **variables})
    assert isinstance(found, list)
    return found


def test_database_is_installed_on_the_first_host_only_unless_external() -> None:
    groups = {"slurm_controller": ["ctl"], "monitoring": ["ctl"], "slurm_database": ["db1", "db2"]}
    for external, first in (({}, True), ({"host": "sql.example.org"}, False)):
        site = {"groups": groups, "slurm_database_external": external}
        found = [later(["slurm_database"], inventory_hostname=host, **site) for host in groups["slurm_database"]]
        assert ["mariadb-server" in names for names in found] == [first, False]
        assert all("slurmdbd" in names for names in found)


def test_values_depend_on_distribution_and_release() -> None:
    assert "sackd" in variable("__slurm_packages", "slurm")["login"]
    bookworm = TRIXIE | {"distribution_major_version": "12"}
    assert "sackd" not in variable("__slurm_packages", "slurm", ansible_facts=bookworm)["login"]


def test_inventory_overrides_the_default_and_play_parameters_override_both() -> None:
    assert variable("validation_backend", "validation") == "nccl"
    assert variable("validation_backend", "validation", validation_backend="mpi") == "mpi"
    given = ", parameters={'validation_backend': 'nccl'}"
    assert variable("validation_backend", "validation", given, validation_backend="mpi") == "nccl"


@pytest.mark.parametrize(
    ("name", "role", "words"),
    [
        ("__slurm_packages", "slurmm", "role slurmm: the collection does not contain this role"),
        ("__slurm_pakages", "slurm", "role slurm: unknown variable __slurm_pakages"),
    ],
)
def test_unknown_role_or_variable_is_named(name: str, role: str, words: str) -> None:
    with pytest.raises(LookupError, match=words):
        variable(name, role)


def test_missing_distribution_facts_are_an_error() -> None:
    with pytest.raises(LookupError, match="distribution facts"):
        variable("__slurm_packages", "slurm", ansible_facts={})


def test_new_host_gets_the_packages_of_its_groups_roles() -> None:
    assert later(["slurm_compute"], validation_backend="mpi") == [
        *("munge", "slurmd", "slurm-client", "libpmix2t64", "libpam-slurm-adopt"),
        *("lmod", "python3-mpi4py", "python3-numpy", "prometheus-node-exporter"),
    ]
    controller = later(["slurm_controller", "slurm_database", "monitoring"], inventory_hostname="ctl")
    assert controller == [
        *("munge", "mariadb-server", "python3-pymysql", "slurmdbd", "slurm-client", "slurmctld", "libpmix2t64"),
        *("prometheus-node-exporter", "python3-prometheus-client", "prometheus", "prometheus-alertmanager"),
    ]
    assert later([]) == ["prometheus-node-exporter"]


@pytest.mark.parametrize(
    ("variables", "gone"),
    [
        ({"lmod_enabled": False}, {"lmod"}),
        ({"slurm_repository": {"uri": "https://example.org"}}, {"slurmd", "slurm-client", "libpmix2t64"}),
        ({"validation_backend": "nccl"}, {"python3-mpi4py", "python3-numpy"}),
        ({"ansible_skip_tags": ["validation"]}, {"python3-mpi4py", "python3-numpy"}),
        ({"node_exporter_source": "url"}, {"prometheus-node-exporter"}),
        ({"slurm_pam_adopt": False}, {"libpam-slurm-adopt"}),
    ],
)
def test_packages_of_disabled_features_are_not_installed(variables: dict[str, Any], gone: set[str]) -> None:
    every = {"validation_backend": "mpi"}
    found = later(["slurm_compute"], **(every | variables))
    assert found
    assert not gone & set(found)
    assert gone < set(later(["slurm_compute"], **every))


@pytest.mark.parametrize(
    "variables", [{"ansible_run_tags": ["hosts"]}, {"ansible_skip_tags": ["monitoring"]}, {"all_roles_follow": False}]
)
def test_run_of_some_roles_installs_no_packages_of_others(variables: dict[str, Any]) -> None:
    assert later(["slurm_compute"], **variables) == []
