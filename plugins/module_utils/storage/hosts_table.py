"""Format the cluster's names and addresses for /etc/hosts."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["END", "cluster_entries", "hosts_file"]

END = "# END busbar"
_OWN_NAME = "127.0.1.1"
SSH_PORT = 22


def cluster_entries(
    names: Iterable[str], variables: Mapping[str, Mapping[str, Any]], domain: str = ""
) -> list[dict[str, Any]]:
    """Return `name`, `target`, `address`, `names`, `port` and `known_as` of each host.

    `target` is the address that Ansible connects to; `address` is '' if the inventory sets none; `port` is the SSH port
    for other hosts; `known_as` are all names and addresses in the format of known_hosts.

    Args:
        names: hosts of the inventory.
        variables: variables of each host. The address is `hosts_address`, or else `ansible_host`, or else the name;
            `hosts_aliases` are further names; the port is `ssh_port`, or else `ansible_port`, or else 22.
        domain: if set, the first name of a host is its name in this domain.

    Raises:
        ValueError: two hosts have the same address.
    """
    entries = []
    holders: dict[str, str] = {}
    for name in names:
        known = variables[name]
        given = str(known.get("hosts_address") or known.get("ansible_host") or name)
        address = given if _is_address(given) else ""
        if address and holders.setdefault(address, name) != name:
            message = (
                f"{holders[address]} and {name} have the same address {address}: correct ansible_host in the inventory"
            )
            raise ValueError(message)
        aliases = known.get("hosts_aliases") or []
        full = [f"{name}.{domain}"] if domain and "." not in name else []
        target = str(known.get("ansible_host") or name)
        all_names = [*full, name, *aliases]
        port = int(known.get("ssh_port") or _reached_by(known))
        known_as = _known_as([*all_names, target, address], {port, _reached_by(known)})
        entries.append(
            {
                "name": name,
                "target": target,
                "address": address,
                "names": all_names,
                "port": port,
                "known_as": known_as,
            }
        )
    return entries


def _reached_by(variables: Mapping[str, Any]) -> int:
    """Return the port that Ansible connects to."""
    return int(variables.get("ansible_port") or SSH_PORT)


def _known_as(names: Iterable[str], ports: Iterable[int]) -> list[str]:
    """Return a host's names in the format of known_hosts, including ports other than 22."""
    named = list(dict.fromkeys(filter(None, names)))
    return [name if port == SSH_PORT else f"[{name}]:{port}" for port in sorted(ports) for name in named]


def hosts_file(current: str, block: str) -> str:
    """Return the text of /etc/hosts with the managed block as the only entries for the cluster's names.

    These names are removed from other lines, including Debian's line for 127.0.1.1, which would make daemons listen on
    a loopback address and advertise it.

    Raises:
        ValueError: a line of the block has no valid address or no name.
    """
    for fields in filter(None, map(_fields, block.splitlines())):
        if not _is_address(fields[0]) or not fields[1:]:
            message = f"hosts_extra: '{' '.join(fields)}' needs an IP address and at least one name: correct this entry"
            raise ValueError(message)
    ours = {name for line in block.splitlines() for name in _fields(line)[1:]}
    kept = []
    inside = False
    for line in current.splitlines():
        if line.startswith("# BEGIN busbar"):
            inside = True
        elif inside:
            inside = line != END
        else:
            kept += _without(line, ours)
    text = "\n".join(kept).rstrip()
    return f"{text}\n\n{block}" if text else block


def _without(line: str, names: set[str]) -> list[str]:
    fields = _fields(line)
    if not fields:
        return [line]
    if fields[0] == _OWN_NAME:
        return []
    left = [name for name in fields[1:] if name not in names]
    if len(left) == len(fields) - 1:
        return [line]
    return [" ".join([fields[0], *left])] if left else []


def _fields(line: str) -> list[str]:
    return line.partition("#")[0].split()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
