"""Warnings about nodes: old versions, packages without security fixes, kernels that need a reboot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.kernels import newer_kernel
from ...module_utils.common.problems import make_problem
from .minimum_versions import AS_OF, MINIMUMS, is_below
from .package_fixes import unfixed_packages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["node_advice"]


def node_advice(host: str, node: Mapping[str, Any]) -> list[Problem]:
    """Return the warnings about one node.

    Args:
        host: its name.
        node: `node` of the module node_info: `os`, `kernel`, `kernels` and `versions`.
    """
    versions = node.get("versions") or {}
    unfixed = [
        make_problem([host], each.name, each.problem, each.remedy)
        for each in unfixed_packages(node.get("os") or {}, versions)
    ]
    return [*_versions(host, versions), *unfixed, *_kernel(host, node)]


def _versions(host: str, versions: Mapping[str, str]) -> Iterator[Problem]:
    for key, minimum in MINIMUMS.items():
        version = versions.get(key, "")
        least = is_below(version, minimum)
        if least:
            problem = (
                f"{version} is older than {least}, the first version that fixes the vulnerabilities of {minimum.source}"
            )
            remedy = f"update it with {minimum.option} (table of minimum versions as of {AS_OF})"
            yield make_problem([host], minimum.name, problem, remedy)


def _kernel(host: str, node: Mapping[str, Any]) -> Iterator[Problem]:
    running = str(node.get("kernel") or "")
    newer = newer_kernel(running, node.get("kernels") or [])
    if newer:
        problem = f"{running} runs, but {newer} is installed: its fixes require a reboot"
        yield make_problem([host], "kernel", problem, "drain the node and reboot it")
