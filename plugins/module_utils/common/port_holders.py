"""Who listens on a TCP port, from /proc alone; standard library only."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .problems import Problem

__all__ = ["Holder", "Listener", "find_holders", "holder_of", "listeners", "overlaps", "port_problems", "unit_of"]

_LISTEN = "0A"
# As much of a process name as a message holds.
_WORDS = 160
_LOCAL, _STATE, _INODE = 1, 3, 9


class Listener(NamedTuple):
    """A socket that listens."""

    address: str
    port: int
    inode: str


class Holder(NamedTuple):
    """Who holds a socket; pid 0 and empty texts where nobody is seen, such as a process of another container."""

    listener: Listener
    pid: int
    name: str
    unit: str


def listeners(table: str) -> list[Listener]:
    """Return what listens, of the text of /proc/net/tcp or tcp6 (their form: proc_net_tcp in the kernel's manual)."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > _INODE and fields[_STATE] == _LISTEN:
            address, _, port = fields[_LOCAL].partition(":")
            found.append(Listener(_address(address), int(port, 16), fields[_INODE]))
    return found


def overlaps(wanted: str, held: str) -> bool:
    """Whether a socket on `held` keeps another from `wanted`; :: stands for IPv4 as well, as Linux does by default."""
    one, other = (ipaddress.ip_address(text) for text in (wanted, held))
    if one == other:
        return True
    if one.is_unspecified or other.is_unspecified:
        wild = one if one.is_unspecified else other
        return one.version == other.version or wild.version == 6  # noqa: PLR2004 - of the protocol
    return False


def unit_of(cgroup: str) -> str:
    """Return the innermost service that a text of /proc/PID/cgroup names, '' for none."""
    services = [part for line in cgroup.splitlines() for part in line.split("/") if part.endswith(".service")]
    return services[-1] if services else ""


def holder_of(listener: Listener, proc: Path) -> Holder:
    """Return who holds a socket."""
    wanted = f"socket:[{listener.inode}]"
    for folder in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            if any(str(link.readlink()) == wanted for link in (folder / "fd").iterdir()):
                name = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                unit = unit_of((folder / "cgroup").read_text(encoding="utf-8"))
                return Holder(listener, int(folder.name), name or (folder / "comm").read_text().strip(), unit)
        except OSError:  # it ended meanwhile
            continue
    return Holder(listener, 0, "", "")


def find_holders(address: str, port: int, proc: Path = Path("/proc")) -> list[Holder]:
    """Return who keeps a daemon from listening on an address and a port.

    Args:
        address: or a name that leads to one; with a name that leads nowhere yet every address counts.
        port: of TCP.
        proc: where the kernel tells of processes.
    """
    wanted = _resolved(address)
    tables = [proc / "net" / name for name in ("tcp", "tcp6")]
    found: Iterable[Listener] = (
        each for path in tables if path.is_file() for each in listeners(path.read_text(encoding="ascii"))
    )
    held = [each for each in found if each.port == port and any(overlaps(one, each.address) for one in wanted)]
    return [holder_of(each, proc) for each in held]


def _resolved(address: str) -> list[str]:
    try:
        return [str(ipaddress.ip_address(address.strip("[]")))]
    except ValueError:
        pass
    try:
        return [str(row[4][0]) for row in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)][:1]
    except socket.gaierror:
        return ["::"]


def _address(text: str) -> str:
    """An address as the kernel prints it: words of 32 bits in the order of this machine."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    order = "<" if sys.byteorder == "little" else ">"
    packed = struct.pack(f"{order}{len(words)}I", *words)
    return str(ipaddress.ip_address(packed))


def port_problems(item: dict[str, Any], host: str) -> list[Problem]:
    """Return a problem for each foreign holder of one port."""
    unit = item["unit"] if item["unit"].endswith(".service") else f"{item['unit']}.service"
    problems = []
    for holder in find_holders(item["address"], item["port"]):
        if holder.unit == unit:
            continue
        who = "a process that this host does not show"
        if holder.pid:
            who = f"{holder.name[:_WORDS]} (pid {holder.pid}{', unit ' + holder.unit if holder.unit else ''})"
        problem = f"{holder.listener.address} port {item['port']} is held by {who}, so {unit} cannot listen there"
        problems.append(
            make_problem([host], item["key"], problem, f"stop that process, or set {item['key']} to a free port")
        )
    return problems
