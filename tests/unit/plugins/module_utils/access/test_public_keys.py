"""Tests that authorized_keys lines which sshd would ignore are refused before they are written."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.account_problems import account_problems, key_fault


def _key(kind: str, *fields: bytes) -> str:
    blob = b"".join(len(each).to_bytes(4, "big") + each for each in (kind.encode(), *fields))
    return f"{kind} {base64.b64encode(blob).decode()} me@laptop"


KEY = _key("ssh-ed25519", bytes(32))


@pytest.mark.parametrize(
    "line",
    [
        KEY,
        _key("ssh-rsa", b"\x01\x00\x01", bytes(256)),
        f'from="10.0.0.*, 192.0.2.1",no-pty {KEY}',
        f'command="say \\"yes\\"" {KEY}',
        f"restrict {KEY}",
    ],
)
def test_valid_key_line_is_accepted(line: str) -> None:
    assert key_fault(line) == ""


@pytest.mark.parametrize(
    "line",
    [
        "ssh-ed25519 BBBBnotakey",
        "ssh-ed25519",
        "ssh-ed25519 AAAA… alice",
        KEY.replace("ssh-ed25519", "ssh-rsa"),
        f"{KEY.split()[0]} {KEY.split()[1][:40]}",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "alice@laptop",
    ],
)
def test_line_ignored_by_sshd_is_refused_without_quoting_the_key(line: str) -> None:
    fault = key_fault(line)
    assert fault
    assert line.rsplit(maxsplit=1)[-1] not in fault.replace("ssh-ed25519 AAAA… me@laptop", "")


def test_message_names_user_and_option() -> None:
    users: list[dict[str, Any]] = [
        {"name": "alice", "uid": 2001, "authorized_keys": [f"# of alice\n{KEY}\n", "ssh-ed25519 BBBB"]},
        {"name": "bob", "state": "absent", "authorized_keys": ["x"]},
    ]
    (problem,) = account_problems(users, [])
    assert problem["key"] == "users_accounts[alice].authorized_keys"
    assert ".pub" in problem["remedy"]
