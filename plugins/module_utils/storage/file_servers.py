"""Query file servers over the network, with time limits."""

from __future__ import annotations

import random
import socket
import struct
import time
from functools import partial

from ..common.call_timeout import bounded

__all__ = ["addresses", "null_call", "reply_fault", "server_fault"]

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
    while len(data) < 4 or len(data) < 4 + (int.from_bytes(data[:4], "big") & 0x7FFFFFFF):  # noqa: PLR2004 - the record mark
        part = connection.recv(4096)
        if not part:
            break
        data += part
    return data


def _ask(host: str, port: int, version: int | None, timeout_s: float) -> str:
    """Return the problem with a listening server, or ''; without an NFS version only the port is checked.

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
    """Retry until one of the servers is usable or the timeout expires; return the faults, or ''."""
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


NFS_PROGRAM = 100003
_RPC_VERSION = 2
_CALL, _REPLY = 0, 1
_LAST_FRAGMENT = 0x80000000
_MISMATCH = 2
_FAULTS = {
    1: "does not serve NFS",
    3: "has no null procedure",
    4: "cannot parse the call",
    5: "has an internal error",
}


def null_call(version: int, xid: int) -> bytes:
    """Return an NFS NULL call (procedure 0) over TCP, without credentials.

    Source: RFC 5531, sections 9 and 11; the program number is from RFC 1813.
    """
    body = struct.pack(">10I", xid, _CALL, _RPC_VERSION, NFS_PROGRAM, version, 0, 0, 0, 0, 0)
    return struct.pack(">I", _LAST_FRAGMENT | len(body)) + body


def reply_fault(reply: bytes, version: int, xid: int) -> str:
    """Return the fault in a reply to `null_call` as a predicate of the server's name, or ''.

    Args:
        reply: the reply with its record mark.
        version: requested version.
        xid: transaction id of the call.
    """
    try:
        answered, kind, denied, _, length = struct.unpack_from(">5I", reply, 4)
        if (answered, kind) != (xid, _REPLY):
            return "answers, but not as NFS"
        if denied:
            return "rejects the RPC call"
        place = 24 + (length + 3) // 4 * 4
        (state,) = struct.unpack_from(">I", reply, place)
        if state == _MISMATCH:
            low, high = struct.unpack_from(">2I", reply, place + 4)
            return f"does not serve NFS version {version}, only {low} to {high}"
    except struct.error:
        return "answers, but not as NFS"
    return _FAULTS.get(state, "" if state == 0 else f"answers with the unknown state {state}")
