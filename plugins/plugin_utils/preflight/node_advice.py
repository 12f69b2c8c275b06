"""Warn about old versions, packages without security fixes, and kernels that require a reboot."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ...module_utils.common.kernels import newer_kernel
from ...module_utils.common.package_fixes import unfixed_packages
from ...module_utils.common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["node_advice", "package_fixes"]


@cache
def package_fixes() -> Mapping[str, Any]:
    """Return the content of package_fixes.yml."""
    found: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("package_fixes.yml").read_text(encoding="utf-8"))
    return found


def node_advice(host: str, node: Mapping[str, Any]) -> list[Problem]:
    """Return the warnings about one node.

    Args:
        host: name of the host.
        node: `node` of the node_info module: `os`, `kernel`, `kernels` and `versions`.
    """
    unfixed = [
        make_problem([host], each.name, each.problem, each.remedy)
        for each in unfixed_packages(package_fixes(), node.get("os") or {}, node.get("versions") or {})
    ]
    return [*unfixed, *_kernel(host, node)]


def _kernel(host: str, node: Mapping[str, Any]) -> Iterator[Problem]:
    running = str(node.get("kernel") or "")
    newer = newer_kernel(running, node.get("kernels") or [])
    if newer:
        problem = f"{running} is running, but {newer} is installed and requires a reboot"
        yield make_problem([host], "kernel", problem, "drain the node and reboot it")
