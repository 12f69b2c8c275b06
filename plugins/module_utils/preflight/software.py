"""Checks what a site declares of containers and of IP over InfiniBand, before any host is contacted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem
from ..nvidia.rdma_problems import address_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..common.problems import Problem

__all__ = ["site_software_problems"]

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_TRUE = {"true", "yes", "on", "1"}


def site_software_problems(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Return what is wrong; the roles look closer, at what only a host can tell.

    Args:
        hosts: all hosts of the site.
        variables: variables of every host; options that are not there have the defaults of their roles.
    """
    own = {host: variables[host] for host in hosts}
    open_enroot = [host for host, each in own.items() if _on(each, "enroot") and not each.get("enroot_checksums")]
    open_pyxis = [
        host
        for host, each in own.items()
        if _on(each, "pyxis") and not _SHA256.fullmatch(str(each.get("pyxis_sha256") or ""))
    ]
    problems = []
    if open_enroot:
        remedy = 'add a line "FILE: <what sha256sum prints for it>" for each package, once you trust that file'
        problems.append(
            make_problem(open_enroot, "enroot_checksums", "is empty, so no package can be verified", remedy)
        )
    if open_pyxis:
        remedy = "set it to what `sha256sum` prints for the archive at pyxis_source, once you trust that file"
        problems.append(
            make_problem(open_pyxis, "pyxis_sha256", "is no SHA-256, so the archive cannot be verified", remedy)
        )
    interfaces = {host: each.get("rdma_ipoib_interfaces") or [] for host, each in own.items()}
    taken = {host: str(each.get("ansible_host") or host) for host, each in own.items()}
    return problems + address_problems(interfaces, taken)


def _on(variables: Mapping[str, Any], role: str) -> bool:
    return str(variables.get(f"{role}_enabled", False)).lower() in _TRUE
