"""Tests of the null procedure call, with replies in the format of RFC 5531."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.storage.file_servers import null_call, reply_fault

XID = 0x1234


def reply(*words: int, xid: int = XID) -> bytes:
    body = struct.pack(f">{len(words) + 1}I", xid, *words)
    return struct.pack(">I", 0x80000000 | len(body)) + body


def test_the_call() -> None:
    call = null_call(4, XID)
    mark, *words = struct.unpack(">11I", call)
    assert mark == 0x80000000 | 40
    assert words == [XID, 0, 2, 100003, 4, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (reply(1, 0, 0, 0, 0), ""),
        (reply(1, 0, 0, 8, 1, 2, 0), ""),
        (reply(1, 0, 0, 0, 2, 3, 3), "does not serve NFS version 4, only 3 to 3"),
        (reply(1, 0, 0, 0, 1), "does not serve NFS"),
        (reply(1, 1, 0, 0, 0), "rejects the RPC call"),
        (reply(1, 0, 0, 0, 0, xid=7), "answers, but not as NFS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers, but not as NFS"),
        (b"", "answers, but not as NFS"),
        (reply(1, 0, 0, 0, 9), "answers with the unknown state 9"),
    ],
)
def test_the_reply(answer: bytes, fault: str) -> None:
    assert reply_fault(answer, 4, XID) == fault
