"""Tests of the classification of connection failures, and of the clock offset."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.node_answer import (
    clock_offset,
    failure_kind,
    short_message,
)

FAILED = "Failed to connect to the host via ssh: "


@pytest.mark.parametrize(("there", "expected"), [(101.0, 0.0), (100.0, 0.0), (105.0, 3.0), (90.0, -10.0), (102.0, 0.0)])
def test_clock_offset_is_the_guaranteed_minimum(there: float, expected: float) -> None:
    assert clock_offset(100.0, there, there, 102.0) == expected


def test_clock_offset_is_not_hidden_by_a_slow_answer() -> None:
    assert clock_offset(100.0, 97.0, 127.0, 130.0) == -3.0
    assert clock_offset(100.0, 103.0, 133.0, 130.0) == 3.0


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Incorrect sudo password", "become"),
        ("Missing sudo password", "become"),
        ("Task failed: Timeout (22s) waiting for privilege escalation prompt: ", "become"),
        ("Premature end of stream waiting for become success.", "become"),
        ("/bin/sh: 1: sudo: not found", "become"),
        ("bob is not in the sudoers file.", "become"),
        ("The module interpreter '/usr/bin/python3' was not found.", "python"),
        ("/bin/sh: 1: /usr/bin/python3: not found", "python"),
        ("This account is currently not available.", "shell"),
        ("MemTotal", "module"),
    ],
)
def test_failure_kind(text: str, kind: str) -> None:
    assert failure_kind(text) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            FAILED + "ssh: connect to host 10.0.0.9 port 22: Connection refused",
            "Connection refused",
        ),
        (
            FAILED + "Warning: Permanently added 'x'\r\nadmin@10.0.0.9: Permission denied (publickey).",
            "Permission denied (publickey)",
        ),
        (
            FAILED + "Connection timed out during banner exchange\r\nConnection to 10.0.0.9 port 22 timed out",
            "Connection to the host port 22 timed out",
        ),
        (
            FAILED + "ssh: Could not resolve hostname gpu9: Name or service not known",
            "Could not resolve hostname gpu9: Name or service not known",
        ),
        ("Task failed: Incorrect sudo password", "Incorrect sudo password"),
        ("Module result deserialization failed\nsudo: a password is required\n", "sudo: a password is required"),
        ("", "no message"),
    ],
)
def test_short_message_is_the_same_for_all_hosts(text: str, expected: str) -> None:
    assert short_message(text, "10.0.0.9") == expected


def test_short_message_leaves_longer_addresses_alone() -> None:
    assert short_message("route via 110.0.0.9 and 10.0.0.99", "10.0.0.9") == "route via 110.0.0.9 and 10.0.0.99"
