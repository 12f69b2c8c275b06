"""Check that nodes have the software that the site's containers need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...module_utils.common.problems import Problem

CHECKSUM_REMEDY = 'verify each package, then add a line "FILE: SHA256" for it'
# Options with container images that require GPUs unless the validation runs on CPUs.
_IMAGES = ("validation_image", "validation_p2p_image", "validation_nvbandwidth_image", "validation_training_image")
_TRUE = {"true", "yes", "on", "1"}


def node_software_problems(
    host: str,
    variables: Mapping[str, Any],
    hardware: Mapping[str, Any] | None,
    programs: Sequence[str],
    system: str = "debian",
) -> list[Problem]:
    """Return a problem for each program that containers of the site require, but that no role installs on a node.

    Args:
        host: name of the node.
        variables: variables of the node.
        hardware: hardware profile of the node, or None.
        programs: programs among enroot and nvidia-container-cli that are installed.
        system: ID in os-release of the node.
    """
    problems = []
    if is_on(variables, "enroot") and system not in {"debian", "ubuntu"} and not variables.get("enroot_checksums"):
        problem = f"is empty, but the role builds Enroot only for Debian and Ubuntu, not for {system}"
        problems.append(make_problem([host], "enroot_checksums", problem, CHECKSUM_REMEDY))
    if is_on(variables, "pyxis") and not is_on(variables, "enroot") and "enroot" not in programs:
        problem = "is true, but Pyxis requires Enroot, which is neither installed nor enabled"
        problems.append(make_problem([host], "pyxis_enabled", problem, "set enroot_enabled: true, or install Enroot"))
    given = str(variables.get("nvidia_container_toolkit_source") or "nvidia") != "none"
    images = [
        name
        for name in ("examples_image", *(() if variables.get("validation_backend") == "mpi" else _IMAGES))
        if variables.get(name)
    ]
    if (hardware or {}).get("gpu") and images and not given and "nvidia-container-cli" not in programs:
        problem = "needs GPUs in containers, but nvidia-container-cli is neither installed nor enabled"
        remedy = "set nvidia_container_toolkit_source: nvidia, or install libnvidia-container-tools"
        problems += [make_problem([host], name, problem, remedy) for name in images]
    return problems


def is_on(variables: Mapping[str, Any], role: str) -> bool:
    """Return whether a role is enabled on a host."""
    return str(variables.get(f"{role}_enabled", False)).lower() in _TRUE
