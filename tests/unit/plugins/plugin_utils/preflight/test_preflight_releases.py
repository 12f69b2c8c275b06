"""Tests of options that a distribution or release does not support."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import problem_report
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.releases import release_problems
from ansible_collections.busbar.cluster.roles.preflight.checks import check_nodes

GROUPS = {"slurm_controller": ["h"], "slurm_login": ["h"], "slurm_compute": ["h"], "portal": ["h"], "pxe_server": ["h"]}
SYSTEMS = {
    "debian12": {"id": "debian", "version": "12", "major": "12", "name": "Debian GNU/Linux 12"},
    "debian13": {"id": "debian", "version": "13", "major": "13", "name": "Debian GNU/Linux 13"},
    "ubuntu22": {"id": "ubuntu", "version": "22.04", "major": "22", "name": "Ubuntu 22.04"},
    "ubuntu24": {"id": "ubuntu", "version": "24.04", "major": "24", "name": "Ubuntu 24.04"},
    "ubuntu26": {"id": "ubuntu", "version": "26.04", "major": "26", "name": "Ubuntu 26.04"},
    "rocky9": {"id": "rocky", "version": "9.5", "major": "9", "name": "Rocky Linux 9"},
}
PROLOG = {"pyxis_enabled": True, "scratch_per_job": True}
AUTODETECT = {"slurm_gres_mode": "nvidia"}
PER_JOB = {"pyxis_enabled": "yes", "slurm_job_scripts": {"TaskProlog": "/x"}}


def _keys(system: str, variables: dict[str, Any], *groups: str, slurm: str = "") -> list[str]:
    node = {"os": SYSTEMS[system], "versions": {"slurm": slurm} if slurm else {}}
    found = release_problems("h", variables, node, {name: GROUPS.get(name, ["h"]) for name in groups})
    assert all(each["hosts"] == ["h"] and each["remedy"] for each in found)
    return [each["key"] for each in found]


@pytest.mark.parametrize(
    ("system", "variables", "group", "key"),
    [
        ("debian13", {"apptainer_enabled": True}, "slurm_compute", "apptainer_enabled"),
        ("ubuntu22", {"apptainer_enabled": "true"}, "slurm_login", "apptainer_enabled"),
        ("rocky9", {"apptainer_enabled": True, "apptainer_source": "files"}, "slurm_login", "apptainer_source"),
        ("rocky9", {}, "portal", "portal"),
        ("ubuntu22", {}, "portal", "portal"),
        ("rocky9", {}, "pxe_server", "pxe_server"),
        ("rocky9", {"identity_source": "ldap_server"}, "ldap_server", "identity_source"),
        ("rocky9", {"identity_source": "external"}, "slurm_compute", "identity_source"),
        ("rocky9", {"cuda_source": "distribution"}, "slurm_compute", "cuda_source"),
        ("debian12", AUTODETECT, "slurm_compute", "slurm_gres_mode"),
        ("ubuntu24", AUTODETECT, "slurm_compute", "slurm_gres_mode"),
        ("debian13", PROLOG, "slurm_compute", "scratch_per_job"),
        ("debian13", PER_JOB, "slurm_compute", "slurm_job_scripts.TaskProlog"),
    ],
)
def test_option_unsupported_by_the_system_is_refused(
    system: str, variables: dict[str, Any], group: str, key: str
) -> None:
    assert _keys(system, variables, group) == [key]


@pytest.mark.parametrize(
    ("system", "variables", "group"),
    [
        ("rocky9", {"apptainer_enabled": True}, "slurm_compute"),
        ("debian13", {"apptainer_enabled": True}, "slurm_controller"),
        ("debian13", {"apptainer_enabled": True, "apptainer_files": [{"name": "apptainer"}]}, "slurm_compute"),
        ("debian12", {}, "portal"),
        ("debian13", {"identity_source": "external"}, "slurm_compute"),
        ("rocky9", {}, "slurm_compute"),
        ("ubuntu26", AUTODETECT, "slurm_compute"),
        ("ubuntu24", {**AUTODETECT, "slurm_repository": {"uris": "x"}}, "slurm_compute"),
        ("ubuntu24", AUTODETECT, "slurm_login"),
        ("debian12", PROLOG, "slurm_compute"),
        ("debian13", PROLOG, "slurm_login"),
        ("debian13", {**PROLOG, "pyxis_enabled": False}, "slurm_compute"),
        ("debian13", {**PROLOG, "slurm_repository": {"uris": "x"}}, "slurm_compute"),
    ],
)
def test_option_supported_by_the_system_is_accepted(system: str, variables: dict[str, Any], group: str) -> None:
    assert _keys(system, variables, group) == []


def test_installed_slurm_takes_precedence_over_that_of_the_distribution() -> None:
    assert _keys("debian13", PROLOG, "slurm_compute", slurm="26.05.5-1") == []
    assert _keys("debian12", AUTODETECT, "slurm_compute", slurm="24.11.5-4") == []
    assert _keys("debian13", AUTODETECT, "slurm_compute", slurm="24.05.2-1") == ["slurm_gres_mode"]
    assert _keys("debian13", PROLOG, "slurm_compute", slurm="24.11.7-1") == []
    assert _keys("debian12", PROLOG, "slurm_compute", slurm="25.05.1-1") == ["scratch_per_job"]


def reached(system: str) -> dict[str, Any]:
    """Return the answer of a node whose only problem is its release."""
    node: dict[str, Any] = {"os": SYSTEMS[system], "versions": {}, "users": {}, "groups": {}, "programs": []}
    node |= {"euid": 0, "architecture": "x86_64", "free_mb": {}, "cpus": 1, "memory_mb": 1}
    return {"reached": True, "node": node}


def test_all_hosts_are_named_in_one_message() -> None:
    hosts = ["gpu1", "gpu2", "login"]
    answer = reached("debian13")
    variables = {host: {"apptainer_enabled": True, "answer": answer} for host in hosts}
    site = {"catalogue": {}, "users": [], "groups": [], "compute": hosts[:2]}
    site |= {"inventory_groups": {"slurm_login": ["login"], "slurm_compute": hosts[:2]}}
    limits = {"systems": {"debian": ["13"]}, "architectures": ["x86_64"], "clock_s": 60, "free_mb": {}}
    found = check_nodes(hosts, {"hostvars": variables, "answer": "answer", "site": site, "limits": limits})
    first, *rest = problem_report(found).splitlines()
    assert first.startswith("gpu[1-2],login: apptainer_enabled: Debian GNU/Linux 13 ")
    assert len(rest) == 1


def test_driver_missing_in_the_distribution_is_refused() -> None:
    gpu = {"model": "NVIDIA H100 80GB HBM3", "count": 8, "memory_mb": 81559}
    answer = reached("debian12")
    own = {"nvidia_driver_source": "distribution", "nvidia_driver_branch": "580", "hardware": "h100", "answer": answer}
    site = {"catalogue": {"h100": {"gpu": gpu}}, "users": [], "groups": [], "compute": ["gpu1"], "inventory_groups": {}}
    limits = {"systems": {"debian": ["12"]}, "architectures": ["x86_64"], "clock_s": 60, "free_mb": {}}
    (found,) = check_nodes(["gpu1"], {"hostvars": {"gpu1": own}, "answer": "answer", "site": site, "limits": limits})
    assert (found["hosts"], found["key"]) == (["gpu1"], "nvidia_driver_source")
    assert "Debian 12 has 535, not branch 580" in found["problem"]


@pytest.mark.parametrize(
    ("system", "own", "keys"),
    [
        ("debian13", {}, ["urls", "fingerprints", "key_urls"]),
        ("debian13", {"nvidia_repository_urls": {"cuda": "http://mirror/"}}, ["fingerprints", "key_urls"]),
        ("debian13", {"nvidia_driver_source": "none"}, []),
        ("ubuntu24", {}, []),
        ("ubuntu26", {}, []),
        ("rocky9", {"nvidia_driver_version": "580.95.05"}, []),
    ],
)
def test_arm_nodes_are_refused_if_nvidia_has_no_packages(system: str, own: dict[str, Any], keys: list[str]) -> None:
    answer = reached(system)
    answer["node"]["architecture"] = "aarch64"
    gpu = {"model": "NVIDIA GH200 480GB", "count": 1, "memory_mb": 97871}
    site = {"catalogue": {"gh200": {"gpu": gpu}}, "users": [], "groups": [], "compute": ["gpu1"]}
    host = {"hardware": "gh200", "answer": answer, **own}
    limits: dict[str, Any] = {"architectures": ["x86_64", "aarch64"], "clock_s": 60, "free_mb": {}}
    limits["systems"] = {answer["node"]["os"]["id"]: [answer["node"]["os"]["major"], "24.04", "26.04"]}
    found = check_nodes(["gpu1"], {"hostvars": {"gpu1": host}, "answer": "answer", "site": site, "limits": limits})
    assert [each["key"] for each in found] == [f"nvidia_repository_{key}.cuda" for key in keys]
    assert all(each["hosts"] == ["gpu1"] and "Debian 13 on aarch64" in each["problem"] for each in found[:1])
