"""Checks what a site declares of containers and of IP over InfiniBand, and what the nodes have of the former."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem
from ...module_utils.nvidia.rdma_problems import address_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...module_utils.common.problems import Problem

__all__ = ["ENROOT_KNOWN", "PYXIS_KNOWN", "node_software_problems", "site_software_problems"]

# Versions of Pyxis and Enroot of which the roles have the checksums.
PYXIS_KNOWN = ("0.24.0",)
ENROOT_KNOWN = ("4.1.2",)
_CHECKSUM_REMEDY = 'add a line "FILE: <what sha256sum prints for it>" for each package, once you trust that file'
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
# What a site may have run on GPUs in a container, but for the validation on CPUs.
_IMAGES = ("validation_image", "validation_p2p_image", "validation_nvbandwidth_image", "validation_training_image")
_TRUE = {"true", "yes", "on", "1"}


def site_software_problems(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Return what is wrong; the roles look closer, at what only a host can tell.

    Args:
        hosts: all hosts of the site.
        variables: variables of every host; options that are not there have the defaults of their roles.
    """
    own = {host: variables[host] for host in hosts}
    open_enroot = [host for host, each in own.items() if _on(each, "enroot") and not _enroot_verified(each)]
    open_pyxis = [host for host, each in own.items() if _on(each, "pyxis") and not _pyxis_verified(each)]
    problems = []
    if open_enroot:
        remedy = f"take enroot_version {ENROOT_KNOWN[-1]} with the default enroot_packages, or {_CHECKSUM_REMEDY}"
        problems.append(
            make_problem(
                open_enroot,
                "enroot_checksums",
                "is empty, and the role does not know how to build this version",
                remedy,
            )
        )
    if open_pyxis:
        remedy = "set it to what `sha256sum` prints for the archive at pyxis_source, once you trust that file"
        problems.append(
            make_problem(open_pyxis, "pyxis_sha256", "is no SHA-256, so the archive cannot be verified", remedy)
        )
    interfaces = {host: each.get("rdma_ipoib_interfaces") or [] for host, each in own.items()}
    taken = {host: str(each.get("ansible_host") or host) for host, each in own.items()}
    return problems + address_problems(interfaces, taken)


def _enroot_verified(variables: Mapping[str, Any]) -> bool:
    """Return whether the packages of Enroot have checksums, or are built from sources that the role knows."""
    known = str(variables.get("enroot_version", ENROOT_KNOWN[0])) in ENROOT_KNOWN
    return bool(variables.get("enroot_checksums")) or (known and "enroot_packages" not in variables)


def _pyxis_verified(variables: Mapping[str, Any]) -> bool:
    """Return whether the archive of Pyxis has a checksum, its own or that of a version whose sum the role knows."""
    given = variables.get("pyxis_sha256")
    if given is None:
        return str(variables.get("pyxis_version", PYXIS_KNOWN[0])) in PYXIS_KNOWN
    return bool(_SHA256.fullmatch(str(given)))


def node_software_problems(
    host: str,
    variables: Mapping[str, Any],
    hardware: Mapping[str, Any] | None,
    programs: Sequence[str],
    system: str = "debian",
) -> list[Problem]:
    """Return what a compute node lacks for the containers that the site wants, and will not be given.

    Args:
        host: its name.
        variables: its variables.
        hardware: its entry of the catalogue, None when it has none.
        programs: which of enroot and nvidia-container-cli it has.
        system: ID in its os-release.
    """
    problems = []
    if _on(variables, "enroot") and system not in {"debian", "ubuntu"} and not variables.get("enroot_checksums"):
        problem = f"is empty, and the role builds Enroot only for Debian and Ubuntu, not for {system}"
        problems.append(make_problem([host], "enroot_checksums", problem, _CHECKSUM_REMEDY))
    if _on(variables, "pyxis") and not _on(variables, "enroot") and "enroot" not in programs:
        problem = "is on, and Pyxis runs Enroot, which is neither there nor to be installed"
        problems.append(make_problem([host], "pyxis_enabled", problem, "set enroot_enabled: true, or install Enroot"))
    given = str(variables.get("nvidia_container_toolkit_source") or "nvidia") != "none"
    images = [name for name in ("examples_image", *_validation_images(variables)) if variables.get(name)]
    if (hardware or {}).get("gpu") and images and not given and "nvidia-container-cli" not in programs:
        problem = "needs GPUs in a container, and nvidia-container-cli is neither there nor to be installed"
        remedy = "set nvidia_container_toolkit_source: nvidia, or install libnvidia-container-tools"
        problems += [make_problem([host], name, problem, remedy) for name in images]
    return problems


def _validation_images(variables: Mapping[str, Any]) -> tuple[str, ...]:
    return () if variables.get("validation_backend") == "mpi" else _IMAGES


def _on(variables: Mapping[str, Any], role: str) -> bool:
    return str(variables.get(f"{role}_enabled", False)).lower() in _TRUE
