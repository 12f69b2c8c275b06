"""Find options that the distribution or release of a host does not support."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ...module_utils.common.problems import Problem
    from ...module_utils.nvidia.repositories import System

    Variables = Mapping[str, Any]
    Groups = Mapping[str, Collection[str]]
    Fault = tuple[str, str, str]

_TRUE = frozenset({"true", "yes", "on", "1"})
_DEBIAN = frozenset({"debian", "ubuntu"})
_DISTRIBUTIONS = {
    "debian": "Debian",
    "ubuntu": "Ubuntu",
    "almalinux": "AlmaLinux",
    "rhel": "RedHat",
    "rocky": "Rocky",
}
# Slurm versions in distributions, for the checks below: packages.debian.org, packages.ubuntu.com.
_PACKAGED_SLURM = {
    ("debian", "12"): "22.05.8",
    ("debian", "13"): "24.11.5",
    ("ubuntu", "22"): "21.08.5",
    ("ubuntu", "24"): "23.11.4",
    ("ubuntu", "26"): "25.11.2",
}
_FIRST_AUTODETECT = (24, 11)
# Releases that run TaskProlog through the slurmstepd binary, which does not exist in containers, where Pyxis runs the
# prolog (CHANGELOG of Slurm 24.11.7 and 25.05.2: "Avoid regression requiring slurmstepd …").
_NO_TASK_PROLOG = re.compile(r"(?<![0-9.])(24\.11\.[0-6]|25\.05\.[01])(?![0-9])")


def release_problems(host: str, variables: Variables, node: Mapping[str, Any], groups: Groups) -> list[Problem]:
    """Return a problem for each option of a host that its distribution or release does not support.

    Args:
        host: name of the host.
        variables: variables of the host, without role defaults.
        node: `node` of the node_info module: `os` and `versions`.
        groups: hosts of every group.
    """
    system = node["os"]
    debian = system["id"] in _DEBIAN
    name = system["name"] or system["id"]
    faults = [
        *_apptainer(host, variables, name, groups, packaged=not debian),
        *_debian_only(host, variables, system, groups),
        *_task_prolog(host, variables, node, groups),
        *_autodetect(host, variables, node, groups),
    ]
    if not debian and variables.get("cuda_source") == "distribution" and host in groups.get("slurm_compute", ()):
        faults.append(("cuda_source", f"{name} does not package CUDA", "set cuda_source: nvidia"))
    return [make_problem([host], *fault) for fault in faults]


def driver_system(node: Mapping[str, Any]) -> System:
    """Return distribution, versions, family and architecture of a node from node_info, in Ansible's terms."""
    system = node["os"]
    return {
        "distribution": _DISTRIBUTIONS.get(system["id"], system["id"]),
        "version": system["version"],
        "major": system["major"],
        "family": "Debian" if system["id"] in _DEBIAN else "RedHat",
        "architecture": node["architecture"],
    }


def _apptainer(host: str, variables: Variables, name: str, groups: Groups, *, packaged: bool) -> Iterator[Fault]:
    files = variables.get("apptainer_files")
    source = variables.get("apptainer_source") or ("files" if files else "distribution")
    if not (_on(variables, "apptainer_enabled") and _in(host, groups, "slurm_login", "slurm_compute")):
        return
    remedy = (
        "add the upstream package to apptainer_files, with name, version, file and sha256, and set apptainer_version "
        "or apptainer_url; or set apptainer_enabled: false"
    )
    if source == "files" and not files:
        yield "apptainer_source", "is 'files', but apptainer_files is empty", remedy
    elif source == "distribution" and not packaged:
        yield "apptainer_enabled", f"{name} does not package Apptainer", remedy


def _debian_only(host: str, variables: Variables, system: Mapping[str, str], groups: Groups) -> Iterator[Fault]:
    """Yield the problems with roles that support only Debian and Ubuntu."""
    debian, name = system["id"] in _DEBIAN, system["name"] or system["id"]
    identity = variables.get("identity_source") or "declared"
    old_ubuntu = system["id"] == "ubuntu" and system["major"].isdecimal() and int(system["major"]) < 24  # noqa: PLR2004
    if _in(host, groups, "portal") and (not debian or old_ubuntu):
        remedy = "use a host that runs Debian 12 or newer, or Ubuntu 24.04, in the group portal"
        yield "portal", f"{name} does not package configurable-http-proxy, which the portal needs", remedy
    if debian:
        return
    if _in(host, groups, "pxe_server"):
        yield (
            "pxe_server",
            f"{name} is not supported for this role",
            "use a host that runs Debian in the group pxe_server",
        )
    servers = groups.get("ldap_server") or groups.get("slurm_controller", ())
    if identity == "ldap_server" and host in servers:
        remedy = "use a host that runs Debian or Ubuntu in the group ldap_server, or set identity_source: external"
        yield "identity_source", f"{name} has no slapd that this role supports", remedy
    elif identity != "declared":
        remedy = "set identity_source: declared for this host, and configure sssd there yourself"
        yield "identity_source", f"busbar does not configure sssd on {name}", remedy


def _task_prolog(host: str, variables: Variables, node: Mapping[str, Any], groups: Groups) -> Iterator[Fault]:
    """Yield a problem if TaskProlog would fail every task in a Pyxis container."""
    per_job = _on(variables, "scratch_per_job")
    given = (variables.get(key) or {} for key in ("slurm_job_scripts", "slurm_config"))
    declared = any(each.get("TaskProlog") for each in given)
    if not (_on(variables, "pyxis_enabled") and (per_job or declared) and _in(host, groups, "slurm_compute")):
        return
    found = _NO_TASK_PROLOG.search(_slurm_version(variables, node))
    if found:
        key = "scratch_per_job" if per_job else "slurm_job_scripts.TaskProlog"
        problem = f"Slurm {found[1]} cannot run a TaskProlog in Pyxis containers, so each task would fail"
        remedy = (
            "remove the option (for scratch use slurm_private_tmp and slurm_private_tmp_directory, which need no "
            "TaskProlog), install Slurm 24.11.7, 25.05.2 or newer, or set pyxis_enabled: false"
        )
        yield key, problem, remedy


def _autodetect(host: str, variables: Variables, node: Mapping[str, Any], groups: Groups) -> Iterator[Fault]:
    """Yield a problem if slurmd has no plugin that reads /proc/driver/nvidia."""
    found = re.search(r"(\d\d)\.(\d\d)", _slurm_version(variables, node))
    if not (found and variables.get("slurm_gres_mode") == "nvidia" and _in(host, groups, "slurm_compute")):
        return
    if (int(found[1]), int(found[2])) < _FIRST_AUTODETECT:
        remedy = "set slurm_gres_mode: files, or install Slurm 24.11 or newer"
        yield "slurm_gres_mode", f"Slurm {found[0]} has no AutoDetect=nvidia (first release: 24.11)", remedy


def _slurm_version(variables: Variables, node: Mapping[str, Any]) -> str:
    """Return the installed version of Slurm, otherwise the distribution's version; '' if unknown."""
    system = node["os"]
    own = variables.get("slurm_repository") or variables.get("slurm_external")
    packaged = "" if own else _PACKAGED_SLURM.get((system["id"], system["major"]), "")
    return (node.get("versions") or {}).get("slurm") or packaged


def _on(variables: Variables, name: str) -> bool:
    return str(variables.get(name) or False).lower() in _TRUE


def _in(host: str, groups: Groups, *names: str) -> bool:
    return any(host in groups.get(name, ()) for name in names)
