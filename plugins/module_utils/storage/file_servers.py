"""Query file servers over the network, with time limits."""

from __future__ import annotations

import random
import socket
import time
from functools import partial

from ..common.call_timeout import bounded
from .nfs_rpc import null_call, reply_fault

__all__ = ["addresses", "server_fault"]

_ONE_TRY_S = 5
_PAUSE_S = 1


def addresses(name: str) -> list[str]:
    """Return the IP addresses of a host.

    Raises:
        OSError: the name cannot be resolved.
    """
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})


def _receive(connection: socket.socket) -> bytes:
    """Return the first record from a server, possibly truncated."""
    data = b""
    while len(data) < 4 or len(data) < 4 + (int.from_bytes(data[:4], "big") & 0x7FFFFFFF):  # noqa: PLR2004 - the mark
        part = connection.recv(4096)
        if not part:
            break
        data += part
    return data


def _ask(host: str, port: int, version: int | None, timeout_s: float) -> str:
    """Return the fault of a listening server, or ''; without an NFS version only the port is checked.

    Raises:
        OSError: the server does not answer.
    """
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        if version is None:
            return ""
        xid = random.getrandbits(32)
        connection.sendall(null_call(version, xid))
        return reply_fault(_receive(connection), version, xid)


def server_fault(servers: list[tuple[str, int]], version: int | None, timeout_s: int) -> str:
    """Retry until one of the servers is usable or the timeout is over; return the faults, or ''."""
    deadline = time.monotonic() + timeout_s
    while True:
        faults = []
        for host, port in servers:
            left = max(1.0, min(_ONE_TRY_S, deadline - time.monotonic()))
            try:
                fault = bounded(partial(_ask, host, port, version, left), left + 1)
            except OSError as exc:
                fault = f"does not answer on TCP port {port} ({exc})"
            if not fault:
                return ""
            faults.append(f"{host} {fault}")
        if time.monotonic() + _PAUSE_S >= deadline:
            return "; ".join(faults)
        time.sleep(_PAUSE_S)
