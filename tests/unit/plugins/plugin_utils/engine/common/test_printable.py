"""Tests that untrusted text cannot control a terminal."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import (
    printable,
    printable_lines,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, ümlaut, 漢字, 🙂\tand tab\n", "plain, ümlaut, 漢字, 🙂\tand tab\n"),
        ("\x1b]52;c;ZXZpbA==\x07", "\ufffd]52;c;ZXZpbA==\ufffd"),
        ("\x1b[2J\x1b[H", "\ufffd[2J\ufffd[H"),
        ("\x9b2J\x9d52;c;x\x9c", "\ufffd2J\ufffd52;c;x\ufffd"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b\x1b[0m[2J", "\ufffd[2J"),
        ("hidden\rVerdict: PASS", "hidden\ufffdVerdict: PASS"),
        ("terminal\r\r\nline\r\n", "terminal\nline\n"),
        ("safe\u202egnp.exe\u2066\u200b", "safe\ufffdgnp.exe\ufffd\ufffd"),
        (
            "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\x08\x00\x7f",
            "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf\ufffdg\ufffd\ufffd\ufffd",
        ),
        ("lone\udc80", "lone\ufffd"),
        (7, "7"),
    ],
)
def test_printable(text: object, expected: str) -> None:
    assert printable(text) == expected


def test_every_character_is_harmless_or_replaced() -> None:
    for code in range(sys.maxunicode + 1):
        shown = printable(chr(code))
        assert shown == "\ufffd" or (shown == chr(code) and (shown in "\n\t" or shown.isprintable()))


def test_printable_lines_match_the_lines_of_a_terminal() -> None:
    assert printable_lines("\r\n a\r\n\r\nb\x1b\u2028c \n") == ["a", "", "b\ufffd\ufffdc"]
    assert printable_lines(" \n") == []
