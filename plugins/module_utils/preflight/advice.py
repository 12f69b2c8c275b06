"""Warnings about nodes: old versions, packages without security fixes, kernels that wait for a boot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..catalogue.minimum_versions import AS_OF, MINIMUMS, is_below
from ..catalogue.package_fixes import unfixed_packages
from ..common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..common.problems import Problem

__all__ = ["newer_kernel", "node_advice"]

_RELEASE = re.compile(r"^(\d+(?:\.\d+)*)(?:-([\d.]+))?(.*)$")


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
            problem = f"{version} is older than {least}, the first without the holes of {minimum.source}"
            remedy = f"update it with {minimum.option} (table of minimum versions as of {AS_OF})"
            yield make_problem([host], minimum.name, problem, remedy)


def _kernel(host: str, node: Mapping[str, Any]) -> Iterator[Problem]:
    running = str(node.get("kernel") or "")
    newer = newer_kernel(running, node.get("kernels") or [])
    if newer:
        problem = f"{running} runs, {newer} is installed: its fixes wait for a reboot"
        yield make_problem([host], "kernel", problem, "drain the node and reboot it")


def newer_kernel(running: str, installed: Sequence[str]) -> str:
    """Return the newest installed kernel of the running one's flavour, '' when it runs or cannot be told.

    Args:
        running: its release, as `uname -r` says it: '6.8.0-60-generic', '6.12.48+deb13-amd64', '5.14.0-570.el9.x86_64'.
        installed: releases that could be booted. Without the running one among them, as in a container, the kernel is
            somebody else's.
    """
    now = _key(running)
    if running not in installed or now is None:
        return ""
    alike = [(key, release) for release in installed if (key := _key(release)) is not None and key[1] == now[1]]
    best = max(alike)
    return best[1] if best[0] > now else ""


def _key(release: str) -> tuple[tuple[int, ...], str] | None:
    """Return a kernel's numbers and its flavour; no number counts in that: '.el9_6.x86_64' is '.el9.x86_64'."""
    match = _RELEASE.match(release)
    if not match:
        return None
    numbers = tuple(int(number) for part in match.groups()[:2] if part for number in re.findall(r"\d+", part))
    return numbers, re.sub(r"[\d_]+", "", match.group(3))
