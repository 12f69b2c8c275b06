"""Reads an inventory without a playbook: hosts whose names do not resolve, private keys, and secrets folders."""

from __future__ import annotations

import concurrent.futures
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.common.call_timeout import bounded
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import make_problem

from busbar.doctor.finding import ERROR, Finding, findings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RESOLVE_S = 5.0
_AT_ONCE = 32
_SSH = frozenset({None, "smart", "ssh", "ansible.builtin.ssh", "paramiko", "ansible.netcommon.libssh"})


def unresolved(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield a finding for each host name that does not resolve.

    Args:
        hosts: variables of the inventory by host; addresses that are templates are skipped.
    """
    names = {
        host: str(variables.get("ansible_host") or host)
        for host, variables in hosts.items()
        if variables.get("ansible_connection") in _SSH and not _resolves_elsewhere(variables)
    }
    addresses = sorted({name for name in names.values() if "{{" not in name})
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        unknown = {name for name, fault in zip(addresses, pool.map(_is_unresolved, addresses)) if fault}
    yield from findings_of(
        ERROR,
        (
            make_problem([host], "ansible_host", f"{name} cannot be resolved", "set ansible_host to the host's address")
            for host, name in names.items()
            if name in unknown
        ),
    )


def _resolves_elsewhere(variables: Mapping[str, Any]) -> bool:
    """Return whether a jump host or an SSH configuration resolves the name of a host."""
    words = " ".join(str(variables.get(f"ansible_ssh_{part}_args") or "") for part in ("common", "extra"))
    return any(word in words for word in ("Proxy", "-J", "-F"))


def _is_unresolved(name: str) -> bool:
    """Return whether a name does not resolve within the time limit."""
    try:
        bounded(partial(socket.getaddrinfo, name, 22), _RESOLVE_S)
    except OSError:
        return True
    return False


def key_files(hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the paths of private keys in an inventory, except templates."""
    named = {
        str(variables.get(key))
        for variables in hosts.values()
        for key in ("ansible_ssh_private_key_file", "ansible_private_key_file")
        if variables.get(key)
    }
    return sorted(name for name in named if "{{" not in name)


def secret_folders(hosts: Mapping[str, Mapping[str, Any]], site: Path) -> list[Path]:
    """Return the secrets folders of an inventory: `cluster_secrets_dir`, by default a folder in the site folder.

    Args:
        hosts: variables of the inventory by host; templates are evaluated, except those that Ansible will reject.
        site: folder of the site.
    """
    from ansible.errors import AnsibleError  # noqa: PLC0415 - slow, and reads ansible.cfg when imported
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415
    from ansible.template import Templar  # noqa: PLC0415

    found: set[Path] = set()
    for variables in hosts.values():
        declared = variables.get("cluster_secrets_dir", str(site / "secrets"))
        known = {"cluster_dir": str(site), **variables}
        try:
            found.add(Path(str(Templar(loader=DataLoader(), variables=known).template(declared))))
        except AnsibleError:
            continue
    return sorted(found) or [site / "secrets"]
