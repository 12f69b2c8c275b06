"""Exports of an NFS server: who may mount, with which options, and what the file says."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["EXPORT_OPTIONS", "exports_file", "fold_clients", "merge_options", "missing_exports", "shown_exports"]

_PAIRS = (
    ("ro", "rw"),
    ("sync", "async"),
    ("secure", "insecure"),
    ("wdelay", "no_wdelay"),
    ("hide", "nohide"),
    ("hide", "crossmnt"),
    ("subtree_check", "no_subtree_check"),
    ("secure_locks", "insecure_locks"),
    ("auth_nlm", "no_auth_nlm"),
    ("acl", "no_acl"),
    ("pnfs", "no_pnfs"),
    ("root_squash", "no_root_squash"),
    ("all_squash", "no_all_squash"),
    ("security_label", "no_security_label"),
)
_VALUED = ("fsid", "anonuid", "anongid", "sec", "mp", "mountpoint", "refer", "replicas", "xprtsec")
# exports(5) of nfs-utils 2.6 and 2.8.
EXPORT_OPTIONS = frozenset([name for pair in _PAIRS for name in pair] + [*_VALUED, "nocrossmnt"])
_SHOWN = re.compile(r"(?P<client>[^\s()]+)\([^()]*\)")


def merge_options(defaults: Sequence[str], own: Sequence[str]) -> list[str]:
    """Return the options of an export: its own, and those defaults that they do not overrule.

    ['rw', 'sync'] and ['ro'] give ['sync', 'ro'].
    """
    names = {_name(item) for item in own}
    against = names | {other for pair in _PAIRS for name, other in (pair, pair[::-1]) if name in names}
    return [item for item in defaults if _name(item) not in against] + list(own)


def fold_clients(addresses: Iterable[str], networks: Sequence[str]) -> list[str]:
    """Return who may mount: the declared networks, then every address and name that lies in none of them.

    Nothing is folded into a network that was not declared, since it would let strangers in.

    Raises:
        ValueError: when a network is none.
    """
    known = [ipaddress.ip_network(network) for network in networks]
    outside = [each for each in dict.fromkeys(addresses) if not _covered(each, known)]
    return [*map(str, dict.fromkeys(known)), *outside]


def exports_file(exports: Sequence[Mapping[str, Any]], clients: Sequence[str], options: Sequence[str]) -> str:
    """Return the lines for /etc/exports.d, one client a line, so that a diff shows who comes and goes.

    Args:
        exports: items of `nfs_server_exports`.
        clients: who may mount what an export without `clients` of its own offers.
        options: options that an export's own are merged over.
    """
    lines = []
    for export in exports:
        given = ",".join(merge_options(options, export.get("options") or []))
        rows = [f"{_plain(client)}({given})" for client in export.get("clients") or clients]
        lines.append(" \\\n    ".join([export["path"].rstrip("/"), *rows]))
    return "".join(f"{line}\n" for line in lines)


def shown_exports(text: str) -> set[tuple[str, str]]:
    """Return (path, client) of each export in what `exportfs -s` or `-v` shows, or in a file of exports."""
    found = set()
    path = ""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            # A long path stands alone, its clients in lines below that begin with white space.
            path = path if line[0].isspace() else line.split()[0]
            found |= {(path, _plain(match["client"])) for match in _SHOWN.finditer(line)}
    return found


def missing_exports(wanted: str, shown: str) -> list[tuple[str, str]]:
    """Return (path, client) of what a file of exports says and `exportfs -s` does not show.

    A host's name is shown in the form that DNS gives, so for names it is enough that the path is exported to a name.
    """
    there = shown_exports(shown)
    named = {path for path, client in there if not _is_network(client)}
    return sorted(
        (path, client) for path, client in shown_exports(wanted) - there if _is_network(client) or path not in named
    )


def _name(item: str) -> str:
    return item.partition("=")[0]


def _covered(address: str, networks: Sequence[Any]) -> bool:
    try:
        return any(ipaddress.ip_address(address) in network for network in networks)
    except ValueError:
        return False


def _is_network(client: str) -> bool:
    try:
        ipaddress.ip_network(client)
    except ValueError:
        return False
    return True


def _plain(client: str) -> str:
    """Return a network in the form address/bits, a single address without bits, all else as it is."""
    try:
        network = ipaddress.ip_network(client)
    except ValueError:
        return client
    return str(network.network_address) if network.num_addresses == 1 else str(network)
