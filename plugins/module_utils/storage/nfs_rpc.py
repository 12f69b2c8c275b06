"""Build an NFS NULL call and check the reply, to test whether a server supports a version."""

from __future__ import annotations

import struct

__all__ = ["null_call", "reply_fault"]

NFS_PROGRAM = 100003
_RPC_VERSION = 2
_CALL, _REPLY = 0, 1
_LAST_FRAGMENT = 0x80000000
_MISMATCH = 2
_FAULTS = {
    1: "serves no NFS",
    3: "has no null procedure",
    4: "does not understand the call",
    5: "has an internal error",
}


def null_call(version: int, xid: int) -> bytes:
    """Return an NFS NULL call (procedure 0) over TCP, without credentials.

    Source: RFC 5531, sections 9 and 11; the program number is from RFC 1813.
    """
    body = struct.pack(">10I", xid, _CALL, _RPC_VERSION, NFS_PROGRAM, version, 0, 0, 0, 0, 0)
    return struct.pack(">I", _LAST_FRAGMENT | len(body)) + body


def reply_fault(reply: bytes, version: int, xid: int) -> str:
    """Return the fault in a reply to `null_call`, worded to follow the server's name, or ''.

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
            return "refuses to talk"
        place = 24 + (length + 3) // 4 * 4
        (state,) = struct.unpack_from(">I", reply, place)
        if state == _MISMATCH:
            low, high = struct.unpack_from(">2I", reply, place + 4)
            return f"does not serve NFS version {version}, only {low} to {high}"
    except struct.error:
        return "answers, but not as NFS"
    return _FAULTS.get(state, "" if state == 0 else f"answers with the unknown state {state}")
